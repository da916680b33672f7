// AscLocalKeys: which of this rank's distinct keys each id of a batch is.
#include <vector>

#include "bridge/known_shapes.h"
#include "bridge/pipeline.h"
#include "bridge/restores.h"
#include "bridge/send_limit.h"
#include "bridge/status.h"
#include "bridge/step_end.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

// Not stateful, as AscPlans.
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
Of several ranks: the restore indexes of this rank's own batch in one table.

ticket: int64 scalar of AscSubmit, out of AscGate.
owned: int64 scalar of AscGate.
restore: int32, one per feature of the table, of the shape of its ids: index into the rows that AscForward gives.
stream: number of the stream.
table: number of the table.
k: features of the table in this stream.
send_count: distinct keys of the batch that a rank owns at most, for each feature; 0 = any number.
shapes: what is known of the shape of each restore index; [] = nothing.
)doc");

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

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
    return Status::OK();
  }

  Status RequireFewKeys(OpKernelContext* ctx, const Pipeline& pipeline, const RankedStream& stream, int index) const {
    if (send_count_ == 0) return Status::OK();
    const auto batch = stream.Taken(ctx->input(1).scalar<tensorflow::int64>()());
    if (batch == nullptr) return Status::OK();  // AscForward says so
    const SendLimit limit = {send_count_, features_};
    const std::vector<std::int64_t>& owners = batch->shares[static_cast<std::size_t>(index)].owners;
    for (std::size_t rank = 0; rank + 1 < owners.size(); ++rank) {
      TF_RETURN_IF_ERROR(
          limit.Check(pipeline.table(table_)->name(), owners[rank + 1] - owners[rank], Text(" of rank ", rank)));
    }
    return Status::OK();
  }

  int stream_;
  int table_;
  int features_;
  int send_count_;
};

REGISTER_KERNEL_BUILDER(Name("AscLocalKeys").Device(tensorflow::DEVICE_CPU), LocalKeysOp);

}  // namespace ascpipe
