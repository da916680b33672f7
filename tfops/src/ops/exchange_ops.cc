// AscForward, AscBackward: rows to the ranks that ask for them, and gradients back to their owners.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "bridge/asked_rows.h"
#include "bridge/parallel.h"
#include "bridge/rank_wait.h"
#include "bridge/row_sections.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

// Not stateful, as AscPlans.
REGISTER_OP("AscForward")
    .Input("owned: int64")
    .Input("slots: n * int32")
    .Input("restore: n * int32")
    .Input("rows: n * float")
    .Output("places: n * int32")
    .Output("local: n * float")
    .Attr("n: int >= 1")
    .Attr("tables: list(int)")
    .Attr("stream: int")
    .Attr("training: bool").Attr("has_backward: bool")
    .Attr("used: int").Attr("facts: string")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      const int n = c->num_outputs() / 2;
      for (int i = 0; i < n; ++i) {
        tensorflow::shape_inference::ShapeHandle rows;
        TF_RETURN_IF_ERROR(c->WithRank(c->input(1 + 2 * n + i), 2, &rows));
        const auto distinct = c->UnknownDim();
        c->set_output(i, c->Vector(distinct));
        c->set_output(n + i, c->Matrix(distinct, c->Dim(rows, 1)));
      }
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Of several ranks: sends each rank the rows that it asks for, of all tables of a step in one exchange.

owned: int64 scalar of AscGate.
slots: int32[union of what all ranks ask of this one], of AscNextPlan.
restore: int32[all that they ask, in rank order], index into slots.
rows: float[all that they ask, dim], of AscLookup.
places: int32[distinct ids of this rank's batch], row i of local, or -1 of a key without a row.
local: float[distinct ids of this rank's batch, dim]; of keys without a row any values.
n: number of tables.
tables: numbers of the tables.
stream: number of the stream.
training: whether this is the training channel; then claims count from here on.
has_backward: whether gradients follow.
used: a number for the tables that the step uses, equal on all ranks.
facts: what all ranks must have alike in the step, lines of FactsOf.
)doc");

REGISTER_OP("AscBackward")
    .Input("owned: int64")
    .Input("restore: n * int32")
    .Input("values: n * float")
    .Input("indices: n * int32")
    .Output("asked: n * int32")
    .Output("grads: n * float")
    .Attr("n: int >= 1")
    .Attr("tables: list(int)")
    .Attr("stream: int")
    .Attr("used: int")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Of several ranks: sends gradients of rows to their owners, of all tables of a step in one exchange.

owned: int64 scalar of AscGate.
restore: int32[all that ranks ask of this one, in rank order], index into the slots of AscNextPlan.
values: float[valid, dim], of AscLookupGrad: a sum for each of `indices`, which rise.
indices: int32[valid], rows of `local` of AscForward.
asked: restore, but -1 where the rank that asked sends no gradient.
grads: float[all that ranks ask of this one, dim].
n: number of sums; a table may have several.
tables: the number of the table of each.
stream: number of the stream.
used: a number for the tables that the step uses, equal on all ranks.
)doc");

REGISTER_OP("AscApplied").SetIsStateful().SetShapeFn(tensorflow::shape_inference::NoOutputs).Doc(R"doc(
Of several ranks: comes after all that reads the gradients of AscBackward; a step that fails before is half a step.
)doc");

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::OpKernelConstruction;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

// What is sent, and all that must stay until it is.
struct Outgoing {
  std::vector<Tensor> tensors;
  std::deque<std::vector<float>> filled;
  std::deque<std::vector<std::uint8_t>> masks;
  RowSections sections;
  std::shared_ptr<const RankedBatch> batch;
};

class ExchangeOp : public tensorflow::AsyncOpKernel {
 public:
  explicit ExchangeOp(OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("n", &n_));
    OP_REQUIRES_OK(construction, construction->GetAttr("tables", &tables_));
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
    OP_REQUIRES_OK(construction, construction->GetAttr("used", &used_));
    OP_REQUIRES(construction, static_cast<int>(tables_.size()) == n_,
                Refuse(Code::kInvalidArgument, type_string(), ": ", tables_.size(), " tables for n = ", n_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
    const RankedStream* const stream = pipeline->ranked(stream_);
    const std::int64_t owned = ctx->input(0).scalar<tensorflow::int64>()();
    const std::shared_ptr<const RankedBatch> batch = stream == nullptr ? nullptr : stream->Taken(owned);
    OP_REQUIRES_ASYNC(ctx, batch != nullptr,
                      Refuse(Code::kFailedPrecondition, type_string(), ": ticket ", SequenceOf(owned), " of stream ",
                             stream_, " is not in a step of several ranks"), done);
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
    RankWait::Begin(std::move(pipeline), step, ctx, std::move(done), std::move(request),
                    [this, batch, columns, header, used](OpKernelContext* ctx, StepEnd* step,
                                                         const PeerVerdict& verdict, const Received& rows) {
                      if (verdict.kind != Expected()) return FailedExchange(verdict);
                      Agreed(step, used.get(), header);
                      return ReceiveAll(ctx, *batch, columns, rows);
                    },
                    [this, batch, columns, used](OpKernelContext* ctx, StepEnd* step, PeerRequest* request) {
                      TF_RETURN_IF_ERROR(ReadAgain(ctx, *step));
                      return Fill(ctx, *used, batch, columns, request);
                    });
  }

 protected:
  virtual PeerKind Kind() const = 0;
  virtual VerdictKind Expected() const = 0;
  virtual bool HasBackward() const { return false; }
  virtual std::shared_ptr<const std::string> Facts() const { return nullptr; }
  // Reads the inputs that tables have changed since.
  virtual Status ReadAgain(OpKernelContext*, const StepEnd&) { return Status::OK(); }
  // Appends what input i sends.
  virtual Status Send(OpKernelContext* ctx, int i, const RowShares& shares, Outgoing* outgoing,
                      std::vector<std::vector<Piece>>* to) = 0;
  virtual void Agreed(StepEnd* step, Pipeline* pipeline, const PeerHeader& header) = 0;
  // Allocates the outputs of input i, and says how the rows that came lie in them.
  struct Incoming {
    const std::vector<std::int64_t>* bounds;
    std::int64_t dim;
    float* rows;
    std::int32_t* marks;  // -1 is stored where there is no row
  };
  virtual Status Allocate(OpKernelContext* ctx, int i, const RowShares& shares, Incoming* incoming) = 0;

  int n_;
  std::vector<tensorflow::int32> tables_;
  int stream_;
  tensorflow::int64 used_;

 private:
  Status Fill(OpKernelContext* ctx, const Pipeline& pipeline, const std::shared_ptr<const RankedBatch>& batch,
              const std::vector<int>& columns, PeerRequest* request) {
    const auto outgoing = std::make_shared<Outgoing>();
    outgoing->batch = batch;
    request->rows.assign(static_cast<std::size_t>(pipeline.ranks()->size()), {});
    for (int i = 0; i < n_; ++i) {
      TF_RETURN_IF_ERROR(
          Send(ctx, i, batch->shares[static_cast<std::size_t>(columns[i])], outgoing.get(), &request->rows));
    }
    request->keeps = outgoing;
    return Status::OK();
  }

  Status ReceiveAll(OpKernelContext* ctx, const RankedBatch& batch, const std::vector<int>& columns,
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
        Copy copy = {table.rows + begin * table.dim, table.marks + begin, nullptr, nullptr,
                     (*table.bounds)[rank + 1] - begin, table.dim};
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
    return Status::OK();
  }
};

class ForwardOp : public ExchangeOp {
 public:
  explicit ForwardOp(OpKernelConstruction* construction) : ExchangeOp(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
    OP_REQUIRES_OK(construction, construction->GetAttr("has_backward", &has_backward_));
    OP_REQUIRES_OK(construction, construction->GetAttr("facts", facts_.get()));
  }

 protected:
  PeerKind Kind() const override { return training_ ? PeerKind::kForward : PeerKind::kRead; }
  VerdictKind Expected() const override { return training_ ? VerdictKind::kGo : VerdictKind::kRows; }
  bool HasBackward() const override { return has_backward_; }
  std::shared_ptr<const std::string> Facts() const override { return facts_; }

  // The claims have filled the slots anew, or new answers do; the rows, which nothing else reads, are gathered anew.
  Status ReadAgain(OpKernelContext* ctx, const StepEnd& step) override {
    for (int i = 0; i < n_; ++i) {
      const Tensor &slots = ctx->input(1 + i), &restore = ctx->input(1 + n_ + i), &rows = ctx->input(1 + 2 * n_ + i);
      const Table* table = nullptr;
      if (training_) {
        table = step.PendingTable(tables_[i]);
        if (table == nullptr) return Refuse(Code::kInternal, "AscForward: table ", tables_[i], " is not claimed");
      } else {
        const PendingRead* const read = step.ReadOf(tables_[i]);
        if (read == nullptr) continue;  // rows of a checkpoint stay as they are
        table = &read->table();
      }
      const auto copies = step.RowsOf(slots.flat<tensorflow::int32>().data());
      TF_RETURN_IF_ERROR(GatherAsked(ctx, *table, copies.get(), slots, restore,
                                     const_cast<float*>(rows.flat<float>().data())));
    }
    return Status::OK();
  }

  Status Send(OpKernelContext* ctx, int i, const RowShares& shares, Outgoing* outgoing,
              std::vector<std::vector<Piece>>* to) override {
    const Tensor &slots = ctx->input(1 + i), &restore = ctx->input(1 + n_ + i), &rows = ctx->input(1 + 2 * n_ + i);
    const std::int64_t asked = shares.askers.back();
    if (restore.NumElements() != asked || rows.dims() != 2 || rows.dim_size(0) != asked) {
      return Refuse(kE301, "AscForward: ", rows.shape().DebugString(), " rows for ", asked, " keys");
    }
    const auto numbers = slots.flat<tensorflow::int32>();
    const std::int32_t* const end = numbers.data() + numbers.size();
    const std::uint8_t* present = nullptr;
    if (std::find(numbers.data(), end, layout::kSlotNone) != end) {
      const auto index = restore.flat<tensorflow::int32>();
      outgoing->masks.emplace_back(static_cast<std::size_t>(asked));
      for (std::int64_t row = 0; row < asked; ++row) {
        outgoing->masks.back()[static_cast<std::size_t>(row)] = numbers(index(row)) != layout::kSlotNone ? 1 : 0;
      }
      present = outgoing->masks.back().data();
    }
    outgoing->tensors.push_back(rows);
    outgoing->sections.Add({rows.flat<float>().data(), present, rows.dim_size(1), &shares.askers}, to);
    return Status::OK();
  }

  void Agreed(StepEnd* step, Pipeline* pipeline, const PeerHeader& header) override {
    if (!training_) return step->HasRead();
    step->Commit();
    pipeline->stream(stream_)->gate().RingTableWorkers();
    if (!has_backward_) return;
    PeerHeader owed = header;
    owed.kind = PeerKind::kBackward;
    step->Owes(owed);
  }

  Status Allocate(OpKernelContext* ctx, int i, const RowShares& shares, Incoming* incoming) override {
    const std::int64_t distinct = shares.owners.back(), dim = ctx->input(1 + 2 * n_ + i).dim_size(1);
    Tensor *places, *local;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, TensorShape({distinct}), &places));
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, TensorShape({distinct, dim}), &local));
    auto numbers = places->flat<tensorflow::int32>();
    for (std::int64_t row = 0; row < distinct; ++row) numbers(row) = static_cast<tensorflow::int32>(row);
    *incoming = {&shares.owners, dim, local->flat<float>().data(), numbers.data()};
    return Status::OK();
  }

 private:
  bool training_;
  bool has_backward_;
  const std::shared_ptr<std::string> facts_ = std::make_shared<std::string>();
};

class BackwardOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  PeerKind Kind() const override { return PeerKind::kBackward; }
  VerdictKind Expected() const override { return VerdictKind::kApply; }

  Status Send(OpKernelContext* ctx, int i, const RowShares& shares, Outgoing* outgoing,
              std::vector<std::vector<Piece>>* to) override {
    const Tensor &values = ctx->input(1 + n_ + i), &indices = ctx->input(1 + 2 * n_ + i);
    const std::int64_t distinct = shares.owners.back(), valid = indices.NumElements();
    if (values.dims() != 2 || values.dim_size(0) != valid) {
      return Refuse(Code::kInvalidArgument, "AscBackward: gradients of shape ", values.shape().DebugString(), " for ",
                    valid, " rows");
    }
    const std::int64_t dim = values.dim_size(1);
    outgoing->tensors.push_back(values);
    const float* rows = values.flat<float>().data();
    const std::uint8_t* present = nullptr;
    if (valid != distinct) {
      outgoing->filled.emplace_back(static_cast<std::size_t>(distinct * dim));
      outgoing->masks.emplace_back(static_cast<std::size_t>(distinct));
      const auto numbers = indices.flat<tensorflow::int32>();
      for (std::int64_t row = 0; row < valid; ++row) {
        if (numbers(row) < 0 || numbers(row) >= distinct) {
          return Refuse(Code::kInvalidArgument, "AscBackward: a gradient of row ", numbers(row), " of ", distinct);
        }
        outgoing->masks.back()[static_cast<std::size_t>(numbers(row))] = 1;
        std::copy(rows + row * dim, rows + (row + 1) * dim, outgoing->filled.back().data() + numbers(row) * dim);
      }
      rows = outgoing->filled.back().data();
      present = outgoing->masks.back().data();
    }
    outgoing->sections.Add({rows, present, dim, &shares.owners}, to);
    return Status::OK();
  }

  void Agreed(StepEnd* step, Pipeline*, const PeerHeader& header) override { step->Owes(header); }

  Status Allocate(OpKernelContext* ctx, int i, const RowShares& shares, Incoming* incoming) override {
    const Tensor& restore = ctx->input(1 + i);
    const std::int64_t asked = shares.askers.back(), dim = ctx->input(1 + n_ + i).dim_size(1);
    Tensor *marks, *grads;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, restore.shape(), &marks));
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, TensorShape({asked, dim}), &grads));
    const auto index = restore.flat<tensorflow::int32>();
    std::copy(index.data(), index.data() + asked, marks->flat<tensorflow::int32>().data());
    *incoming = {&shares.askers, dim, grads->flat<float>().data(), marks->flat<tensorflow::int32>().data()};
    return Status::OK();
  }
};

class AppliedOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    StepEnd* step;
    OP_REQUIRES_OK(ctx, StepEnd::Of(ctx, pipeline, &step));
    step->OwesNothing();
    step->Unref();
  }
};

}  // namespace

REGISTER_KERNEL_BUILDER(Name("AscForward").Device(tensorflow::DEVICE_CPU), ForwardOp);
REGISTER_KERNEL_BUILDER(Name("AscBackward").Device(tensorflow::DEVICE_CPU), BackwardOp);
REGISTER_KERNEL_BUILDER(Name("AscApplied").Device(tensorflow::DEVICE_CPU), AppliedOp);

}  // namespace ascpipe
