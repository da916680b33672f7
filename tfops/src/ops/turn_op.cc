// AscTurn waits until a batch may be trained. The evaluations of the step run after AscTurn.
#include "bridge/plan_wait.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

// AscTurn is not stateful. AscTurn has a different name for each set of fetches, and a session would keep a stateful
// kernel for each name.
REGISTER_OP("AscTurn")
    .Input("ticket: int64")
    .Attr("table: int")
    .Attr("stream: int")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      return c->WithRank(c->input(0), 0, &ticket);
    })
    .Doc(R"doc(
Waits until AscNextPlan can claim the plan of a training batch for a table, and takes the lease exclusively.

Steps that evaluate and train run this op before their evaluations. No other step can then train between the evaluations
and the claim.

ticket: int64 scalar of AscSubmit, fetched in the same step.
table: Number of the table.
stream: Number of the training stream.
)doc");

namespace ascpipe {

class TurnOp : public tensorflow::AsyncOpKernel {
 public:
  explicit TurnOp(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
    PlanRequest request;
    OP_REQUIRES_OK_ASYNC(ctx, Examine(ctx, *pipeline, &request), done);
    StepEnd* step;
    OP_REQUIRES_OK_ASYNC(ctx, StepEnd::Of(ctx, pipeline, &step), done);
    BeginTurnWait(std::move(pipeline), step, std::move(request), ctx, std::move(done));
  }

 private:
  tensorflow::Status Examine(tensorflow::OpKernelContext* ctx, const Pipeline& pipeline, PlanRequest* request) const {
    request->table = pipeline.table(table_);
    request->stream = pipeline.stream(stream_);
    request->table_index = request->stream == nullptr ? -1 : request->stream->TableIndex(table_);
    if (request->table == nullptr || request->table_index < 0 || !request->stream->training()) {
      return Refuse(Code::kFailedPrecondition, "AscTurn: table ", table_, " is not trained by a stream ", stream_,
                    " of this pipeline");
    }
    const tensorflow::Tensor& ticket = ctx->input(0);
    if (ticket.dims() != 0) {
      return Refuse(Code::kInvalidArgument, "AscTurn: the ticket has shape ", ticket.shape().DebugString(),
                    ", expected a scalar: no stage after map(insert_fn) may batch its output");
    }
    return ToStatus(request->stream->Hold(ticket.scalar<tensorflow::int64>()(), &request->ticket));
  }

  int table_;
  int stream_;
};

REGISTER_KERNEL_BUILDER(Name("AscTurn").Device(tensorflow::DEVICE_CPU), TurnOp);

}  // namespace ascpipe
