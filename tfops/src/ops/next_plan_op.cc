// AscNextPlan claims the plan of one table for a batch. AscPlans claims the plans of several tables. Both ops move
// rows. AscProvisionalPlan is a placeholder for AscNextPlan while a graph is being built.
#include "bridge/known_shapes.h"
#include "bridge/pipeline.h"
#include "bridge/plan_group.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
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
    .Attr("send_count: int >= 0 = 0")
    .Attr("shapes: list(shape) = []")
    .SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ticket));
      c->set_output(0, c->Vector(c->UnknownDim()));
      return ascpipe::SetKnownShapes(c, 1);
    })
    .Doc(R"doc(
Claims the plan of a batch for one table, moves its rows, and returns their slots.

In training, the step holds the lease exclusively from its first claim to its end. Evicted rows move home with their
optimizer slots, missing rows move from home to the device, and rows of new keys get their initial values. In
evaluation, the op reads the state after the last trained step and changes nothing.

ticket: int64 scalar of AscSubmit, fetched in the same step.
state: The table variable float[rows, dim], then each of its optimizer slot variables float[rows, width]. An
  uninitialized variable is attached to the state of the table in this process.
slots: int32[distinct ids of the batch]. -1 for a key without a row. In training, 2^30 is added to the slots of padding
  keys, whose rows are not updated. -2 - h is home row h: in evaluation, and always for an expansion table, where 2^30
  is also added for padding keys. In a session that reads a checkpoint, -2 - h is row h of the checkpoint.
restore: int32 per feature of the table, with the shape of its ids: indexes into slots.
table: Number of the table.
stream: Number of the stream.
k: Number of features of the table in this stream.
n_state: Number of state variables.
training: True for the training channel.
slot_initial: Initial value of each optimizer slot: n_state - 1 values, or one value per element of slot_widths.
send_count: Maximum number of distinct keys of the batch per feature and, with several ranks, per owner; 0 for no limit.
shapes: Known shapes of the restore indexes; [] for none.
slot_widths: For an expansion table, whose n_state is 1: the length of each optimizer slot in a home row.
)doc");

// AscPlans is not stateful. AscPlans has a different name for each set of fetches, and a session would keep a stateful
// kernel for each name.
REGISTER_OP("AscPlans")
    .Input("ticket: int64")
    .Input("state: Ref(n_state * float)")
    .Output("slots: n * int32")
    .Output("restore: k * int32")
    .Attr("tables: list(int)")
    .Attr("stream: int")
    .Attr("features: list(int)")
    .Attr("states: list(int)")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("n_state: int >= 1")
    .Attr("training: bool")
    .Attr("slot_initial: list(float) = []")
    .Attr("send_counts: list(int)")
    .SetAllowsUninitializedInput()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      return c->WithRank(c->input(0), 0, &ticket);
    })
    .Doc(R"doc(
AscNextPlan for several tables of one stream.

The op replaces one plan op per table. It claims each plan when the plan is ready, and ends when all plans are claimed,
or after the first error.

ticket: int64 scalar of AscSubmit, fetched in the same step.
state: For each table its variable, then its optimizer slot variables.
slots: The slots of each table.
restore: For each table, a restore index per feature.
tables: Numbers of the tables; none is an expansion table.
stream: Number of the stream.
features: Number of features of each table in this stream; the sum is k.
states: Number of state variables of each table; the sum is n_state.
training: True for the training channel.
slot_initial: For each table, the initial value of each optimizer slot.
send_counts: The send_count of each table.
)doc");

REGISTER_OP("AscProvisionalPlan")
    .Input("ticket: int64")
    .Output("slots: int32")
    .Output("restore: k * int32")
    .Attr("table: int")
    .Attr("stream: int")
    .Attr("k: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ticket));
      c->set_output(0, c->Vector(c->UnknownDim()));
      for (int i = 1; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Placeholder for AscNextPlan, which replaces this op when the pipeline starts.

A lookup is built before the optimizer has created its slot variables, which AscNextPlan needs. This op fails with an
error that explains how to start the pipeline.

ticket: int64 scalar of AscSubmit.
slots: int32[distinct ids]; see AscNextPlan.
restore: int32 per feature of the table, with the shape of its ids.
table: Number of the table.
stream: Number of the stream.
k: Number of features of the table in this stream.
)doc");

namespace ascpipe {

// Kernel of AscNextPlan and AscPlans. AscNextPlan has one table.
class NextPlanOp : public tensorflow::AsyncOpKernel {
 public:
  explicit NextPlanOp(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
    OP_REQUIRES_OK(construction, construction->HasAttr("tables") ? ReadTables(construction) : ReadTable(construction));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
    std::vector<PlanRequest> requests(parts_.size());
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      OP_REQUIRES_OK_ASYNC(ctx, Examine(ctx, *pipeline, parts_[i], &requests[i]), done);
      if (training_) {
        OP_REQUIRES_OK_ASYNC(ctx, requests[i].table->Drive(ctx), done);
      } else {
        OP_REQUIRES_OK_ASYNC(ctx, RowsInstead(ctx, parts_[i].table, &requests[i].rows), done);
      }
    }
    StepEnd* step;
    OP_REQUIRES_OK_ASYNC(ctx, StepEnd::Of(ctx, pipeline, &step), done);
    for (const PlanRequest& request : requests) {
      const tensorflow::Status single = step->Uses(*request.stream, *request.table, request.ticket->number());
      if (!single.ok()) {
        step->Unref();
        OP_REQUIRES_OK_ASYNC(ctx, single, done);
      }
    }
    BeginPlanWaits(std::move(pipeline), step, std::move(requests), ctx, std::move(done));
  }

 private:
  // Work of the op for one table.
  struct Part {
    int table;
    int features;
    int states;  // number of variables
    int send_count;
    OptimizerSlots slots;
    int state;    // index of the first input
    int restore;  // index of the output with the first restore index
  };

  using Construction = tensorflow::OpKernelConstruction;
  using Integers = std::vector<tensorflow::int32>;

  tensorflow::Status ReadTable(Construction* construction) {
    Part part = {0, 0, 0, 0, {}, 1, 1};
    TF_RETURN_IF_ERROR(construction->GetAttr("table", &part.table));
    TF_RETURN_IF_ERROR(construction->GetAttr("k", &part.features));
    TF_RETURN_IF_ERROR(construction->GetAttr("n_state", &part.states));
    TF_RETURN_IF_ERROR(construction->GetAttr("send_count", &part.send_count));
    TF_RETURN_IF_ERROR(construction->GetAttr("slot_initial", &part.slots.initial));
    TF_RETURN_IF_ERROR(construction->GetAttr("slot_widths", &part.slots.widths));
    const std::size_t count = static_cast<std::size_t>(part.states - 1) + part.slots.widths.size();
    if (part.slots.initial.size() != count) {
      return Refuse(Code::kInvalidArgument, "AscNextPlan: ", part.slots.initial.size(), " values in slot_initial for ",
                    count, " optimizer slots");
    }
    for (const tensorflow::int32 width : part.slots.widths) {
      if (width >= 1) continue;
      return Refuse(Code::kInvalidArgument, "AscNextPlan: slot_widths has an optimizer slot of ", width, " floats");
    }
    parts_.push_back(std::move(part));
    return OkStatus();
  }

  tensorflow::Status ReadTables(Construction* construction) {
    Integers tables, features, states, send_counts;
    std::vector<float> initial;
    int n, k, n_state;
    TF_RETURN_IF_ERROR(construction->GetAttr("tables", &tables));
    TF_RETURN_IF_ERROR(construction->GetAttr("features", &features));
    TF_RETURN_IF_ERROR(construction->GetAttr("states", &states));
    TF_RETURN_IF_ERROR(construction->GetAttr("send_counts", &send_counts));
    TF_RETURN_IF_ERROR(construction->GetAttr("slot_initial", &initial));
    TF_RETURN_IF_ERROR(construction->GetAttr("n", &n));
    TF_RETURN_IF_ERROR(construction->GetAttr("k", &k));
    TF_RETURN_IF_ERROR(construction->GetAttr("n_state", &n_state));
    const std::size_t count = static_cast<std::size_t>(n);
    bool fits =
        tables.size() == count && features.size() == count && states.size() == count && send_counts.size() == count;
    auto value = initial.begin();
    int state = 1, restore = n;
    for (std::size_t i = 0; fits && i < count; ++i) {
      fits = features[i] >= 1 && states[i] >= 1 && initial.end() - value >= states[i] - 1;
      if (!fits) break;
      parts_.push_back(
          {tables[i], features[i], states[i], send_counts[i], {{value, value + (states[i] - 1)}, {}}, state, restore});
      value += states[i] - 1;
      state += states[i];
      restore += features[i];
    }
    if (fits && restore == n + k && state == 1 + n_state && value == initial.end()) return OkStatus();
    return Refuse(Code::kInvalidArgument,
                  "AscPlans: tables, features, states, send_counts and slot_initial do not fit ", n,
                  " tables with the features and variables that the op has");
  }

  tensorflow::Status Examine(tensorflow::OpKernelContext* ctx, const Pipeline& pipeline, const Part& part,
                             PlanRequest* request) const {
    request->table = pipeline.table(part.table);
    request->stream = pipeline.stream(stream_);
    if (request->table == nullptr || request->stream == nullptr) {
      return Refuse(Code::kFailedPrecondition, type_string(), ": table ", part.table, " or stream ", stream_,
                    " is not of this pipeline");
    }
    const std::string& name = request->table->name();
    request->table_index = request->stream->TableIndex(part.table);
    if (request->table_index < 0) {
      return Refuse(Code::kInvalidArgument, type_string(), ": table '", name, "' is not in stream ", stream_);
    }
    if (request->stream->training() != training_) {
      return Refuse(Code::kInvalidArgument, type_string(), ": table '", name, "': stream ", stream_, " is the ",
                    training_ ? "evaluation" : "training", " channel, the plan is for the other one");
    }
    request->pends = pipeline.ranked(stream_) != nullptr;
    // With several ranks, a plan has only one feature: the keys that all ranks request.
    const int features = pipeline.ranked(stream_) != nullptr ? 1 : pipeline.features(stream_).Of(request->table_index);
    if (features != part.features) {
      return Refuse(Code::kInvalidArgument, type_string(), ": table '", name, "' has ", features,
                    " features in stream ", stream_, ", the plan has ", part.features);
    }
    const tensorflow::Tensor& ticket = ctx->input(0);
    if (ticket.dims() != 0) {
      return Refuse(Code::kInvalidArgument, type_string(), ": the ticket has shape ", ticket.shape().DebugString(),
                    ", expected a scalar: no stage after map(insert_fn) may batch its output");
    }
    if (request->table->is_expansion() ? part.states != 1 : !part.slots.widths.empty()) {
      return Refuse(Code::kInvalidArgument, type_string(), ": table '", name, "' has its optimizer slots in ",
                    request->table->is_expansion() ? "home rows" : "variables", ", the plan has ", part.states - 1,
                    " slot variables and ", part.slots.widths.size(), " slot_widths");
    }
    request->features = part.features;
    request->send_count = part.send_count;
    request->slots = part.slots;
    request->state = part.state;
    request->output = static_cast<int>(&part - parts_.data());
    request->restore = part.restore;
    return ToStatus(request->stream->Hold(ticket.scalar<tensorflow::int64>()(), &request->ticket));
  }

  std::vector<Part> parts_;  // by table
  int stream_;
  bool training_;
};

class ProvisionalPlanOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ctx->SetStatus(Refuse(kE205,
                          "The pipeline was not started when this session first ran, so the session knows no tables. "
                          "Nothing was run. Call ",
                          StartCall(), " after the graph is built, and make the session after it"));
  }
};

REGISTER_KERNEL_BUILDER(Name("AscNextPlan").Device(tensorflow::DEVICE_CPU), NextPlanOp);
REGISTER_KERNEL_BUILDER(Name("AscPlans").Device(tensorflow::DEVICE_CPU), NextPlanOp);
REGISTER_KERNEL_BUILDER(Name("AscProvisionalPlan").Device(tensorflow::DEVICE_CPU), ProvisionalPlanOp);

}  // namespace ascpipe
