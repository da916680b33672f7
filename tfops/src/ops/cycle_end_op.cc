// AscCycleEnd: whether a batch is the last one of a cycle of gradient accumulation.
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscCycleEnd")
    .Input("ticket: int64")
    .Input("batches: int64")
    .Output("is_end: bool")
    .Attr("table: int")
    .Attr("steps: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Says whether sums of gradients are applied after a batch: its plan then has the rows of all batches of the cycle.

ticket: int64 scalar of AscSubmit, fetched in the same step, whose plan was claimed.
batches: int64 scalar, the number of batches whose gradients were added since sums were applied last.
is_end: bool scalar.
table: number of a table that is trained.
steps: batches of a cycle.
)doc");

namespace ascpipe {

namespace {
constexpr tensorflow::int64 kMostCycles = 2;  // a program may leave out the last batch of a cycle once
}  // namespace

class CycleEndOp : public tensorflow::OpKernel {
 public:
  explicit CycleEndOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("steps", &steps_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    const tensorflow::Tensor& ticket = ctx->input(0);
    int index = -1;
    Stream* const stream = pipeline->TrainingStream(table_, &index);
    const tensorflow::Tensor& batches = ctx->input(1);
    OP_REQUIRES(ctx, stream != nullptr && ticket.dims() == 0 && batches.dims() == 0,
                Refuse(Code::kFailedPrecondition, "AscCycleEnd: table ", table_,
                       " is not trained by this pipeline, or "
                       "the ticket has shape ",
                       ticket.shape().DebugString(), ", expected a scalar"));
    TicketHold hold;
    OP_REQUIRES_OK(ctx, ToStatus(stream->Hold(ticket.scalar<tensorflow::int64>()(), &hold)));
    OP_REQUIRES(ctx, hold->state() >= 0,
                Refuse(Code::kFailedPrecondition, "AscCycleEnd: the plan of ticket ", SequenceOf(hold->number()),
                       " was not claimed"));
    const CyclePlace& cycle = hold->record().cycle;
    OP_REQUIRES(
        ctx, cycle.StepsOf(index) == steps_,
        Refuse(Code::kFailedPrecondition, "AscCycleEnd: gradients of table ", table_, " are accumulated over ", steps_,
               " batches in this graph, and over ", cycle.StepsOf(index),
               " in the graph that was "
               "started last. The gradient of this batch was added to the sums, and no sum was applied. End the "
               "sessions of a graph before the next one is started, or give both graphs the same k"));
    const tensorflow::int64 added = batches.scalar<tensorflow::int64>()();
    OP_REQUIRES(ctx, added <= kMostCycles * steps_,
                Refuse(Code::kFailedPrecondition, "AscCycleEnd: gradients of ", added, " batches of table '",
                       pipeline->table(table_)->name(),
                       "' were added, and their sum was not applied: the training op did "
                       "not run with the last batch of its cycles of ",
                       steps_,
                       " batches. All batches of the dataset "
                       "count, also batches that another op trains or that are only looked up. The sums are kept, and "
                       "rows are as after the last cycle. Run the training op with each batch"));
    OP_REQUIRES(ctx, !stream->IsOfBefore(hold->number(), steps_),
                Refuse(Code::kFailedPrecondition,
                       "AscCycleEnd: the batch was read ahead before a checkpoint was "
                       "restored or variables were initialized, and its cycle of ",
                       steps_,
                       " gradients would end at "
                       "another batch now. Its gradient was added to the sums, and no sum was applied. Restore or "
                       "initialize variables again, and initialize the iterator after that, so that batches are read "
                       "again"));
    tensorflow::Tensor* out;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &out));
    out->scalar<bool>()() = cycle.Ends(index);
  }

 private:
  int table_;
  tensorflow::int64 steps_;
};

REGISTER_KERNEL_BUILDER(Name("AscCycleEnd").Device(tensorflow::DEVICE_CPU), CycleEndOp);

}  // namespace ascpipe
