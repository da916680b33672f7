// AscAttach: lets variables lie over the state that a table has in this process.
#include "bridge/instance.h"
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscAttach")
    .Input("instance: int64")
    .Input("state: Ref(n_state * float)")
    .Attr("table: int")
    .Attr("n_state: int >= 1")
    .Attr("training: bool")
    .Attr("slot_widths: list(int) = []")
    .Attr("slot_initial: list(float) = []")
    .SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return tensorflow::Status::OK(); })
    .Doc(R"doc(
Lets the variable of a table lie over the rows of its instance, and notes where its optimizer slots are.

Does what a training step does first, for a session that restores a table before its first training step. Also selects
the rows that evaluations of the session read.

instance: int64 scalar, a read-only instance of the table, or 0: the live table.  An instance without the table means
  the live one, too.
state: the table variable float[rows, dim], then each of its optimizer slot variables float[rows, width].  Those that
  are not initialised get what this process has of them, else the initial value.
table: number of the table.
n_state: number of state variables.
training: whether the graph trains the table: its session then drives it.
slot_widths: width of each optimizer slot.
slot_initial: what each element of an optimizer slot begins with.
)doc");

namespace ascpipe {

class AttachOp : public tensorflow::OpKernel {
 public:
  explicit AttachOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
    OP_REQUIRES_OK(construction, construction->GetAttr("slot_widths", &slots_.widths));
    OP_REQUIRES_OK(construction, construction->GetAttr("slot_initial", &slots_.initial));
    OP_REQUIRES(construction, slots_.widths.size() == slots_.initial.size(),
                Refuse(Code::kInvalidArgument, "AscAttach: ", slots_.widths.size(), " values in slot_widths and ",
                       slots_.initial.size(), " in slot_initial"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    Table* const table = pipeline->table(table_);
    OP_REQUIRES(ctx, table != nullptr,
                Refuse(Code::kFailedPrecondition, "AscAttach: table ", table_, " is not of this pipeline"));
    if (training_) OP_REQUIRES_OK(ctx, table->Drive(ctx));
    OP_REQUIRES(ctx, table->is_expansion() || ctx->num_inputs() == 2 + static_cast<int>(slots_.widths.size()),
                Refuse(Code::kInvalidArgument, "AscAttach: table '", table->name(), "': ", ctx->num_inputs() - 2,
                       " slot variables for ", slots_.widths.size(), " optimizer slots"));
    std::vector<StateRows> state;
    OP_REQUIRES_OK(ctx, table->Attach(ctx, 1, slots_, &state));
    std::shared_ptr<const FixedRows> rows;
    const tensorflow::int64 number = ctx->input(0).scalar<tensorflow::int64>()();
    if (number != 0) OP_REQUIRES_OK(ctx, FindRows(number, &rows));
    OP_REQUIRES_OK(ctx, ReadInstead(ctx, table_, std::move(rows)));
  }

 private:
  tensorflow::Status FindRows(tensorflow::int64 number, std::shared_ptr<const FixedRows>* rows) const {
    if (training_) {
      return Refuse(Code::kInvalidArgument, "AscAttach: a graph that trains table ", table_, " reads it live");
    }
    std::shared_ptr<Instance> instance;
    TF_RETURN_IF_ERROR(ToStatus(Instances().Find(number, &instance)));
    const auto found = instance->tables.find(table_);
    if (found != instance->tables.end()) *rows = found->second;
    return tensorflow::Status::OK();
  }

  int table_;
  bool training_;
  OptimizerSlots slots_;
};

REGISTER_KERNEL_BUILDER(Name("AscAttach").Device(tensorflow::DEVICE_CPU), AttachOp);

}  // namespace ascpipe
