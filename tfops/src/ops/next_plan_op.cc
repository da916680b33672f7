// AscNextPlan and AscPlans claim the plans of a batch for one or several tables and move the rows. AscProvisionalPlan
// is a placeholder of AscNextPlan while a graph is being built.
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
send_count: distinct keys of the batch at most, for each feature; with several ranks, of each owner. 0 = any number.
shapes: what is known of the shape of each restore index; [] = nothing.
slot_widths: of an expansion table, whose n_state is 1: floats of each optimizer slot within a home row.
)doc");

// The op is not stateful, because a session caches kernels of stateful ops by name. This op has a new name for each set
// of fetches, so the cache would grow.
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
AscNextPlan for several tables of one stream: one op in place of one for each of them.

Their plans are claimed as they come; the op ends when all have been, or with the first error.

ticket: int64 scalar of AscSubmit, fetched in the same step.
state: of each table its variable, then its optimizer slot variables.
slots: of each table.
restore: of each table its features.
tables: numbers of the tables; none is an expansion table.
stream: number of the stream.
features: how many each table has in this stream; k in all.
states: how many state variables each table has; n_state in all.
training: whether this is the training channel.
slot_initial: of each table the initial value of each optimizer slot.
send_counts: of each table.
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
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Stands for the plan of a table until the pipeline is started, which puts AscNextPlan in its place.

A lookup is built before the optimizer has made its slot variables, so the op that moves rows cannot be
built with it.  Running this op is an error that says how to start the pipeline.

ticket: int64 scalar of AscSubmit.
slots: int32[distinct ids], as of AscNextPlan.
restore: int32, one per feature of the table, of the shape of its ids.
table: number of the table.
stream: number of the stream.
k: features of the table in this stream.
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
    int state;    // first input number
    int restore;  // output number of the first restore index
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
    return tensorflow::Status::OK();
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
    if (fits && restore == n + k && state == 1 + n_state && value == initial.end()) return tensorflow::Status::OK();
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
    // With several ranks, the keys of all ranks are one feature.
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
