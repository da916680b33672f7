#include "ops/exchange_op.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bridge/parallel.h"
#include "bridge/rank_wait.h"
#include "bridge/status.h"

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;

ExchangeOp::ExchangeOp(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
  OP_REQUIRES_OK(construction, construction->GetAttr("n", &n_));
  OP_REQUIRES_OK(construction, construction->GetAttr("tables", &tables_));
  OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
  OP_REQUIRES_OK(construction, construction->GetAttr("used", &used_));
  OP_REQUIRES(construction, static_cast<int>(tables_.size()) == n_,
              Refuse(Code::kInvalidArgument, type_string(), ": ", tables_.size(), " tables for n = ", n_));
}

void ExchangeOp::ComputeAsync(OpKernelContext* ctx, DoneCallback done) {
  std::shared_ptr<Pipeline> pipeline;
  OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
  const RankedStream* const stream = pipeline->ranked(stream_);
  const std::int64_t owned = ctx->input(0).scalar<tensorflow::int64>()();
  const std::shared_ptr<const RankedBatch> batch = stream == nullptr ? nullptr : stream->Taken(owned);
  OP_REQUIRES_ASYNC(ctx, batch != nullptr,
                    Refuse(Code::kFailedPrecondition, type_string(), ": ticket ", SequenceOf(owned), " of stream ",
                           stream_, " is not in a step of several ranks"),
                    done);
  std::vector<int> columns;
  for (const int table : tables_) columns.push_back(stream->local()->TableIndex(table));
  PeerRequest request;
  OP_REQUIRES_OK_ASYNC(ctx, Fill(ctx, *pipeline, batch, columns, &request), done);
  request.header.kind = Kind();
  request.header.stream = stream->number();
  request.header.run = batch->name.run;
  request.header.ticket = batch->name.index;
  request.header.tables = static_cast<std::uint64_t>(used_);
  request.has_backward = HasBackward();
  request.facts = Facts();
  StepEnd* step;
  OP_REQUIRES_OK_ASYNC(ctx, StepEnd::Of(ctx, pipeline, &step), done);
  step->OwesNothing();
  const PeerHeader header = request.header;
  const std::shared_ptr<Pipeline> used = pipeline;
  RankWait::Begin(
      std::move(pipeline), step, ctx, std::move(done), std::move(request),
      [this, batch, columns, header, used](OpKernelContext* ctx, StepEnd* step, const PeerVerdict& verdict,
                                           const Received& rows) {
        if (verdict.kind != Expected()) return FailedExchange(verdict);
        Agreed(step, used.get(), header);
        return ReceiveAll(ctx, *batch, columns, rows);
      },
      [this, batch, columns, used](OpKernelContext* ctx, StepEnd* step, PeerRequest* request) {
        TF_RETURN_IF_ERROR(ReadAgain(ctx, *step));
        return Fill(ctx, *used, batch, columns, request);
      });
}

Status ExchangeOp::Fill(OpKernelContext* ctx, const Pipeline& pipeline, const std::shared_ptr<const RankedBatch>& batch,
                        const std::vector<int>& columns, PeerRequest* request) {
  const auto outgoing = std::make_shared<Outgoing>();
  outgoing->batch = batch;
  request->rows.assign(static_cast<std::size_t>(pipeline.ranks()->size()), {});
  for (int i = 0; i < n_; ++i) {
    TF_RETURN_IF_ERROR(
        Send(ctx, i, batch->shares[static_cast<std::size_t>(columns[i])], outgoing.get(), &request->rows));
  }
  request->keeps = outgoing;
  return OkStatus();
}

Status ExchangeOp::ReceiveAll(OpKernelContext* ctx, const RankedBatch& batch, const std::vector<int>& columns,
                              const Received& received) {
  struct Copy {
    float* to;
    std::int32_t* marks;
    const std::uint8_t* rows;
    const std::uint8_t* present;
    std::int64_t count;
    std::int64_t dim;
  };
  std::vector<Copy> copies;
  std::vector<Incoming> incoming(static_cast<std::size_t>(n_));
  std::int64_t floats = 0;
  for (int i = 0; i < n_; ++i) {
    TF_RETURN_IF_ERROR(Allocate(ctx, i, batch.shares[static_cast<std::size_t>(columns[i])], &incoming[i]));
  }
  for (std::size_t rank = 0; rank < received.from.size(); ++rank) {
    RowReader reader(received.from[rank]);
    for (const Incoming& table : incoming) {
      const std::int64_t begin = (*table.bounds)[rank];
      Copy copy = {table.rows + begin * table.dim,
                   table.marks + begin,
                   nullptr,
                   nullptr,
                   (*table.bounds)[rank + 1] - begin,
                   table.dim};
      TF_RETURN_IF_ERROR(
          ToStatus(reader.Next(static_cast<int>(rank), copy.count, copy.dim, &copy.rows, &copy.present)));
      floats += copy.count * copy.dim;
      copies.push_back(copy);
    }
  }
  const std::int64_t count = static_cast<std::int64_t>(copies.size());
  const std::int64_t block = std::max<std::int64_t>(1, count * 16384 / std::max<std::int64_t>(1, floats));
  ShareBlocks(ctx, count, block, [&copies](std::int64_t begin, std::int64_t end) {
    for (; begin < end; ++begin) {
      const Copy& copy = copies[static_cast<std::size_t>(begin)];
      if (copy.count == 0) continue;
      std::memcpy(copy.to, copy.rows, static_cast<std::size_t>(copy.count * copy.dim) * sizeof(float));
      for (std::int64_t row = 0; copy.present != nullptr && row < copy.count; ++row) {
        if (copy.present[row] == 0) copy.marks[row] = -1;
      }
    }
  });
  return OkStatus();
}

}  // namespace ascpipe
