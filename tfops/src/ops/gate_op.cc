// AscGate returns a batch to its step when all ranks have the batch. AscChoose and AscNothing replace a batch that a
// rank does not have. For each id of the batch, AscLocalKeys returns the index of the id's key in this rank's array of
// distinct keys.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bridge/async_wait.h"
#include "bridge/known_shapes.h"
#include "bridge/pipeline.h"
#include "bridge/rank_wait.h"
#include "bridge/restores.h"
#include "bridge/send_limit.h"
#include "bridge/status.h"
#include "bridge/step_end.h"
#include "bridge/ticket_allocator.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

// AscGate is not stateful. AscGate has a different name for each set of fetches, and a session would keep a stateful
// kernel for each name.
REGISTER_OP("AscGate")
    .Input("has_batch: bool")
    .Input("components: T")
    .Output("batch: T")
    .Output("owned: int64")
    .Attr("T: list(type) >= 1")
    .Attr("stream: int")
    .Attr("ticket: int")
    .Attr("training: bool")
    .Attr("tables: int")
    .Attr("shapes: list(shape) = []")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) { return ascpipe::SetKnownShapes(c, 0); })
    .Doc(R"doc(
With several ranks, returns a batch when every rank has the batch and the keys have arrived at their owners.

If a rank has no more data, the op fails with OUT_OF_RANGE on all ranks in the same step.

has_batch: bool scalar, false if this rank has no more data.
components: The batch.
batch: The same tensors.
owned: int64 scalar, the ticket of the keys that all ranks request from this rank for this batch.
stream: Number of the stream.
ticket: Index of the component that is the ticket of AscSubmit.
training: True for the training channel.
tables: A number that identifies the tables of the step; equal on all ranks.
shapes: Known shapes of the components; [] for none.
)doc");

REGISTER_OP("AscChoose")
    .Input("choose: bool")
    .Input("first: variant")
    .Input("second: variant")
    .Output("chosen: variant")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Returns the first value if `choose` is true, otherwise the second value.
)doc");

REGISTER_OP("AscNothing")
    .Output("nothing: T")
    .Attr("T: list(type) >= 1")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
Returns an empty tensor of each type.
)doc");

// AscLocalKeys is not stateful. AscLocalKeys has a different name for each set of fetches, and a session would keep a
// stateful kernel for each name.
REGISTER_OP("AscLocalKeys")
    .Input("ticket: int64")
    .Input("owned: int64")
    .Output("restore: k * int32")
    .Attr("stream: int")
    .Attr("table: int")
    .Attr("k: int >= 1")
    .Attr("send_count: int >= 0")
    .Attr("shapes: list(shape) = []")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) { return ascpipe::SetKnownShapes(c, 0); })
    .Doc(R"doc(
With several ranks, returns the restore indexes of this rank's own batch in one table.

ticket: int64 scalar of AscSubmit, from the output of AscGate.
owned: int64 scalar of AscGate.
restore: int32 per feature of the table, with the shape of its ids: indexes into the rows of AscForward.
stream: Number of the stream.
table: Number of the table.
k: Number of features of the table in this stream.
send_count: Maximum number of distinct keys of the batch per feature and owner; 0 for no limit.
shapes: Known shapes of the restore indexes; [] for none.
)doc");

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {

// Waits until the keys of this rank's batch are deduplicated and can be sent.
class KeysWait : public AsyncWait {
 public:
  KeysWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended,
           const RankedStream& stream, std::int64_t of)
      : AsyncWait(std::move(pipeline), step, ctx, std::move(ended)), stream_(stream) {
    ticket = of;
    waits_for = layout::kWaitKeys;
  }

  bool Poll(CoreStatus*) override { return stream_.IsReady(ticket); }

 protected:
  void Proceed() override { End(OkStatus()); }

 private:
  const RankedStream& stream_;
};

}  // namespace

class GateOp : public tensorflow::AsyncOpKernel {
 public:
  explicit GateOp(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
    OP_REQUIRES_OK(construction, construction->GetAttr("ticket", &ticket_));
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
    OP_REQUIRES_OK(construction, construction->GetAttr("tables", &tables_));
  }

  void ComputeAsync(OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
    RankedStream* const stream = pipeline->ranked(stream_);
    OP_REQUIRES_ASYNC(ctx, stream != nullptr,
                      Refuse(Code::kFailedPrecondition, "AscGate: stream ", stream_, " is not of several ranks"), done);
    StepEnd* step;
    OP_REQUIRES_OK_ASYNC(ctx, StepEnd::Of(ctx, pipeline, &step), done);
    if (!ctx->input(0).scalar<bool>()()) {
      PeerHeader header = Header(*stream, stream->NameOfNext());
      header.exists = false;
      Exchange(std::move(pipeline), stream, step, std::move(header), 0, ctx, std::move(done));
      return;
    }
    const std::int64_t local = ctx->input(1 + ticket_).scalar<tensorflow::int64>()();
    BatchName name;
    if (!stream->NameOf(local, &name)) {
      step->Unref();
      OP_REQUIRES_ASYNC(ctx, false,
                        Refuse(Code::kInvalidArgument, "AscGate: ticket ", SequenceOf(local), " of stream ", stream_,
                               " was taken already: a batch is fetched and used in one run call"),
                        done);
    }
    const PeerHeader header = Header(*stream, name);
    if (stream->IsKnown(name)) {
      const Status status = Pass(ctx, stream, step, header, local);
      step->Unref();
      if (!status.ok()) ctx->SetStatus(status);
      done();
      return;
    }
    step->Ref();
    const std::shared_ptr<Pipeline> used = pipeline;
    std::make_shared<KeysWait>(
        std::move(pipeline), step, ctx,
        [this, used, stream, step, header, local, ctx, done](const Status& status) {
          if (status.ok()) {
            Exchange(used, stream, step, header, local, ctx, done);
            return;
          }
          step->Unref();
          ctx->SetStatus(status);
          done();
        },
        *stream, local)
        ->Begin();
  }

 private:
  PeerHeader Header(const RankedStream& stream, const BatchName& name) const {
    PeerHeader header;
    header.kind = PeerKind::kGate;
    header.stream = stream.number();
    header.run = name.run;
    header.ticket = name.index;
    header.tables = static_cast<std::uint64_t>(tables_);
    return header;
  }

  // Takes ownership of one reference to `step`.
  void Exchange(std::shared_ptr<Pipeline> pipeline, RankedStream* stream, StepEnd* step, PeerHeader header,
                std::int64_t local, OpKernelContext* ctx, DoneCallback done) {
    PeerRequest request;
    request.header = header;
    RankWait::Begin(std::move(pipeline), step, ctx, std::move(done), std::move(request),
                    [this, stream, header, local](OpKernelContext* ctx, StepEnd* step, const PeerVerdict& verdict,
                                                  const Received&) {
                      if (verdict.kind == VerdictKind::kOver) return tensorflow::errors::OutOfRange("End of sequence");
                      if (verdict.kind != VerdictKind::kBegin) return FailedExchange(verdict);
                      return Pass(ctx, stream, step, header, local);
                    });
  }

  Status Pass(OpKernelContext* ctx, RankedStream* stream, StepEnd* step, PeerHeader header, std::int64_t local) const {
    header.kind = training_ ? PeerKind::kForward : PeerKind::kRead;
    step->Owes(header);
    std::shared_ptr<const RankedBatch> batch;
    TicketHold owned;
    TF_RETURN_IF_ERROR(ToStatus(stream->Take(local, &batch, &owned)));
    const int components = ctx->num_inputs() - 1;
    for (int i = 0; i < components; ++i) ctx->set_output(i, ctx->input(1 + i));
    Ticket* const ticket = owned.Release();
    ctx->set_output(components, TicketAllocator::Get()->MakeTensor(ticket));
    return OkStatus();
  }

  int stream_;
  int ticket_;
  bool training_;
  tensorflow::int64 tables_;
};

class ChooseOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* ctx) override {
    ctx->set_output(0, ctx->input(ctx->input(0).scalar<bool>()() ? 1 : 2));
  }
};

class NothingOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* ctx) override {
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      ctx->set_output(i, tensorflow::Tensor(ctx->expected_output_dtype(i), tensorflow::TensorShape({0})));
    }
  }
};

class LocalKeysOp : public tensorflow::OpKernel {
 public:
  explicit LocalKeysOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &features_));
    OP_REQUIRES_OK(construction, construction->GetAttr("send_count", &send_count_));
  }

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    StepEnd* step;
    OP_REQUIRES_OK(ctx, StepEnd::Of(ctx, pipeline, &step));
    const tensorflow::core::ScopedUnref unref(step);
    OP_REQUIRES_OK(ctx, Read(ctx, *pipeline, step));
  }

 private:
  Status Read(OpKernelContext* ctx, const Pipeline& pipeline, StepEnd* step) const {
    const RankedStream* const stream = pipeline.ranked(stream_);
    const int index = stream == nullptr ? -1 : stream->local()->TableIndex(table_);
    if (index < 0 || pipeline.features(stream_).Of(index) != features_) {
      return Refuse(Code::kFailedPrecondition, "AscLocalKeys: table ", table_, " has no ", features_,
                    " features in a stream ", stream_, " of several ranks");
    }
    TF_RETURN_IF_ERROR(RequireFewKeys(ctx, pipeline, *stream, index));
    TicketHold ticket;
    TF_RETURN_IF_ERROR(ToStatus(stream->local()->Hold(ctx->input(0).scalar<tensorflow::int64>()(), &ticket)));
    if (ticket->state() < 0)
      return Refuse(Code::kFailedPrecondition, "AscLocalKeys: the batch of ticket ", SequenceOf(ticket->number()),
                    " was closed before it was used");
    const PartView part(stream->local()->ring(), ticket->record(), index);
    PlanOutputs outputs;
    TF_RETURN_IF_ERROR(AllocateRestores(ctx, part, 0, &outputs));
    TF_RETURN_IF_ERROR(ToStatus(CopyRestore(pipeline.table(table_)->name(), part, part.ids(), outputs)));
    step->Claimed(std::move(ticket));
    return OkStatus();
  }

  Status RequireFewKeys(OpKernelContext* ctx, const Pipeline& pipeline, const RankedStream& stream, int index) const {
    if (send_count_ == 0) return OkStatus();
    const auto batch = stream.Taken(ctx->input(1).scalar<tensorflow::int64>()());
    if (batch == nullptr) return OkStatus();  // AscForward returns the error
    const SendLimit limit = {send_count_, features_};
    const std::vector<std::int64_t>& owners = batch->shares[static_cast<std::size_t>(index)].owners;
    for (std::size_t rank = 0; rank + 1 < owners.size(); ++rank) {
      TF_RETURN_IF_ERROR(
          limit.Check(pipeline.table(table_)->name(), owners[rank + 1] - owners[rank], Text(" of rank ", rank)));
    }
    return OkStatus();
  }

  int stream_;
  int table_;
  int features_;
  int send_count_;
};

REGISTER_KERNEL_BUILDER(Name("AscGate").Device(tensorflow::DEVICE_CPU), GateOp);
REGISTER_KERNEL_BUILDER(Name("AscChoose").Device(tensorflow::DEVICE_CPU), ChooseOp);
REGISTER_KERNEL_BUILDER(Name("AscNothing").Device(tensorflow::DEVICE_CPU), NothingOp);
REGISTER_KERNEL_BUILDER(Name("AscLocalKeys").Device(tensorflow::DEVICE_CPU), LocalKeysOp);

}  // namespace ascpipe
