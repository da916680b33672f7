// AscNextPlan: claims the plan of a batch for one table and moves its rows.
#include "bridge/plan_wait.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscNextPlan")
    .Input("ticket: int64")
    .Input("state: Ref(n_state * float)")
    .Output("slots: int32")
    .Output("restore: k * int32")
    .Attr("table: int")
    .Attr("stream: int")
    .Attr("k: int >= 1")
    .Attr("n_state: int >= 1")
    .Attr("training: bool")
    .Attr("slot_initial: list(float) = []")
    .Attr("slot_widths: list(int) = []")
    .Attr("shapes: list(shape) = []")
    .SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ticket));
      c->set_output(0, c->Vector(c->UnknownDim()));
      std::vector<tensorflow::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
      for (int i = 1; i < c->num_outputs(); ++i) {
        tensorflow::shape_inference::ShapeHandle shape = c->UnknownShape();
        if (i <= static_cast<int>(shapes.size())) {
          TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[i - 1], &shape));
        }
        c->set_output(i, shape);
      }
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Claims the plan of a batch for one table, moves its rows, and returns where they are.

When training, the step holds the lease alone from its first claim to its end; rows that make room go home with their
optimizer slots, missing rows come from there, and rows of new keys get their initial values.  When evaluating
(training = false), keys are resolved as after the last trained step, nothing is changed, and keys without a row have
slot -1.

ticket: int64 scalar of AscSubmit, fetched in the same step.
state: the table variable float[rows, dim], then each of its optimizer slot variables float[rows, width].
  An uninitialised variable is attached to the state of the table in this process.
slots: int32[distinct ids of the batch], -1 where a key has no row; when training, 2^30 is added to the slots of
  padding keys, whose rows are not to be updated; when evaluating, -2 - h stands for home row h.  Of an expansion
  table always -2 - h, and when training, of a padding key, 2^30 more than that.  In a session that reads
  a checkpoint, -2 - h stands for row h of the checkpoint.
restore: int32, one per feature of the table, of the shape of its ids: index into slots.
table: number of the table.
stream: number of the stream.
k: features of the table in this stream.
n_state: number of state variables.
training: whether this is the training channel.
slot_initial: initial value of each optimizer slot: of n_state - 1 variables, or one for each of slot_widths.
shapes: what is known of the shape of each restore index; [] = nothing.
slot_widths: of an expansion table, whose n_state is 1: floats of each optimizer slot within a home row.
)doc");

namespace ascpipe {

class NextPlanOp : public tensorflow::AsyncOpKernel {
 public:
  explicit NextPlanOp(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &features_));
    OP_REQUIRES_OK(construction, construction->GetAttr("n_state", &states_));
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
    OP_REQUIRES_OK(construction, construction->GetAttr("slot_initial", &slots_.initial));
    OP_REQUIRES_OK(construction, construction->GetAttr("slot_widths", &slots_.widths));
    const std::size_t slots = static_cast<std::size_t>(states_ - 1) + slots_.widths.size();
    OP_REQUIRES(construction, slots_.initial.size() == slots,
                Refuse(Code::kInvalidArgument, "AscNextPlan: ", slots_.initial.size(), " values in slot_initial for ",
                       slots, " optimizer slots"));
    for (const tensorflow::int32 width : slots_.widths) {
      OP_REQUIRES(construction, width >= 1,
                  Refuse(Code::kInvalidArgument, "AscNextPlan: slot_widths has an optimizer slot of ", width,
                         " floats"));
    }
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
    PlanRequest request;
    OP_REQUIRES_OK_ASYNC(ctx, Examine(ctx, *pipeline, &request), done);
    if (training_) {
      OP_REQUIRES_OK_ASYNC(ctx, request.table->Drive(ctx), done);
    } else {
      OP_REQUIRES_OK_ASYNC(ctx, RowsInstead(ctx, table_, &request.rows), done);
    }
    StepEnd* step;
    OP_REQUIRES_OK_ASYNC(ctx, StepEnd::Of(ctx, pipeline, &step), done);
    const tensorflow::Status single = step->Uses(*request.stream, *request.table, request.ticket->number());
    if (!single.ok()) {
      step->Unref();
      OP_REQUIRES_OK_ASYNC(ctx, single, done);
    }
    BeginPlanWait(std::move(pipeline), step, std::move(request), ctx, std::move(done));
  }

 private:
  tensorflow::Status Examine(tensorflow::OpKernelContext* ctx, const Pipeline& pipeline, PlanRequest* request) const {
    request->table = pipeline.table(table_);
    request->stream = pipeline.stream(stream_);
    if (request->table == nullptr || request->stream == nullptr) {
      return Refuse(Code::kFailedPrecondition, "AscNextPlan: table ", table_, " or stream ", stream_,
                    " is not of this pipeline");
    }
    const std::string& name = request->table->name();
    request->table_index = request->stream->TableIndex(table_);
    if (request->table_index < 0) {
      return Refuse(Code::kInvalidArgument, "AscNextPlan: table '", name, "' is not in stream ", stream_);
    }
    if (request->stream->training() != training_) {
      return Refuse(Code::kInvalidArgument, "AscNextPlan: table '", name, "': stream ", stream_, " is the ",
                    training_ ? "evaluation" : "training", " channel, the plan is for the other one");
    }
    const int features = pipeline.features(stream_).Of(request->table_index);
    if (features != features_) {
      return Refuse(Code::kInvalidArgument, "AscNextPlan: table '", name, "' has ", features, " features in stream ",
                    stream_, ", the plan has ", features_);
    }
    const tensorflow::Tensor& ticket = ctx->input(0);
    if (ticket.dims() != 0) {
      return Refuse(Code::kInvalidArgument, "AscNextPlan: the ticket has shape ", ticket.shape().DebugString(),
                    ", expected a scalar: no stage after map(insert_fn) may batch its output");
    }
    if (request->table->is_expansion() ? states_ != 1 : !slots_.widths.empty()) {
      return Refuse(Code::kInvalidArgument, "AscNextPlan: table '", name, "' has its optimizer slots in ",
                    request->table->is_expansion() ? "home rows" : "variables", ", the plan has ", states_ - 1,
                    " slot variables and ", slots_.widths.size(), " slot_widths");
    }
    request->features = features_;
    request->slots = slots_;
    return ToStatus(request->stream->Hold(ticket.scalar<tensorflow::int64>()(), &request->ticket));
  }

  int table_;
  int stream_;
  int features_;
  tensorflow::int32 states_;
  bool training_;
  OptimizerSlots slots_;
};

REGISTER_KERNEL_BUILDER(Name("AscNextPlan").Device(tensorflow::DEVICE_CPU), NextPlanOp);

}  // namespace ascpipe
