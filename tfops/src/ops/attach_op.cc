// AscAttach maps variables onto the state of a table in this process. AscTableInit returns the initial value of a
// mapped variable. AscReadsLive returns whether a session reads the live tables. AscCut changes the access threshold or
// evicts keys exactly between two training steps.
#include <vector>

#include "bridge/cut.h"
#include "bridge/instance.h"
#include "bridge/pipeline.h"
#include "bridge/read_starts.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/common_shape_fns.h"
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
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return ascpipe::OkStatus(); })
    .Doc(R"doc(
Attaches the variables of a table and its optimizer slots to the table's state in this process.

AscNextPlan also attaches the variables. This op is for sessions that restore a table before their first training step.
It also selects the rows that evaluations of the session read.

instance: int64 scalar, a read-only instance of tables, or 0 for the live table. The live table is also used if the
  instance does not contain the table.
state: The table variable float[rows, dim], then each of its optimizer slot variables float[rows, width]. An
  uninitialized slot variable gets the values that this process has, or the initial value if there are none.
table: Number of the table.
n_state: Number of state variables.
training: If true, the graph trains the table, and its session becomes the session that trains the table.
slot_widths: Width of each optimizer slot.
slot_initial: Initial value of the elements of each optimizer slot.
)doc");

REGISTER_OP("AscTableInit")
    .Output("device_rows: float")
    .Attr("table: int")
    .Attr("rows: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("training: bool")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::int64 rows, dim;
      TF_RETURN_IF_ERROR(c->GetAttr("rows", &rows));
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(0, c->Matrix(rows, dim));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Returns the device rows of a table of this process, as the initial value of its variable.

If training is true, a table that is not empty is reset first, so the initializer of a training graph starts from
scratch. If training is false, the table does not change, and a session that read the table from a checkpoint reads
the live table afterwards. The content of rows without a key is undefined.

device_rows: float[rows, dim]. The first Assign keeps this memory and does not copy it.
table: Number of the table.
rows: Number of device rows of the table.
dim: Length of a row.
training: If true, the graph trains the table.
)doc");

REGISTER_OP("AscReadsLive")
    .Output("live: bool")
    .Attr("tables: list(int)")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Returns true if this session reads the live state of all these tables, and none of them from a checkpoint.

live: bool scalar.
tables: Numbers of the tables.
)doc");

REGISTER_OP("AscCut")
    .Input("argument: int64")
    .Attr("table: int")
    .Attr("kind: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle argument;
      return c->WithRank(c->input(0), 0, &argument);
    })
    .Doc(R"doc(
Changes a table exactly between two trained steps, and returns when the change is applied.

The op holds the lease exclusively until the end of its step. It therefore waits first for running training steps and
evaluations. A step that trains a batch must not run this op.

argument: int64 scalar, at least 0. For kind 2, the new access threshold; 0 means that occurrences are no longer
  counted. A table that admits every key ignores the threshold. For kind 3, a key is evicted if its age in units of the
  timestamps is at least this value. An evicted key that occurs again gets a new row.
table: Number of the table.
kind: 2 for the access threshold, 3 for feature eviction.
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
    return OkStatus();
  }

  int table_;
  bool training_;
  OptimizerSlots slots_;
};

namespace {

// Cut that empties a table. After the cut, AscTableInit returns the device rows.
class ResetWait : public CutWait {
 public:
  ResetWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, Table* of, tensorflow::OpKernelContext* ctx,
            tensorflow::AsyncOpKernel::DoneCallback done)
      : CutWait(std::move(pipeline), step, of, layout::kCutReset, 0, ctx, std::move(done)), reset_(*of) {}

 protected:
  void Proceed() override {
    int index = -1;
    Stream* const stream = pipeline().TrainingStream(reset_.number(), &index);
    if (stream != nullptr) {
      stream->BeganWith(index, {});
      stream->BeganAfter(0);
      ReadStarts::Get()->Forget();
    }
    reset_.NoteStart();
    ctx()->set_output(0, reset_.RowsTensor());
    End(OkStatus());
  }

 private:
  Table& reset_;
};

}  // namespace

class TableInitOp : public tensorflow::AsyncOpKernel {
 public:
  explicit TableInitOp(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("rows", &rows_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK_ASYNC(ctx, ToStatus(CurrentPipeline(&pipeline)), done);
    Table* table = pipeline->table(table_);
    OP_REQUIRES_ASYNC(ctx, table != nullptr,
                      Refuse(Code::kFailedPrecondition, "AscTableInit: table ", table_, " is not of this pipeline"),
                      done);
    OP_REQUIRES_ASYNC(
        ctx, table->device().row_count() == rows_ && table->device().dim() == dim_,
        Refuse(Code::kInvalidArgument, "AscTableInit: table '", table->name(), "' has ", table->device().row_count(),
               " rows of ", table->device().dim(), ", its variable has ", rows_, " of ", dim_),
        done);
    if (!training_) {
      OP_REQUIRES_OK_ASYNC(ctx, ReadInstead(ctx, table_, nullptr), done);
      table->NoteStart();
      ctx->set_output(0, table->RowsTensor());
      done();
      return;
    }
    StepEnd* step;
    OP_REQUIRES_OK_ASYNC(ctx, PrepareCut(ctx, "AscTableInit", table_, &pipeline, &table, &step), done);
    std::make_shared<ResetWait>(std::move(pipeline), step, table, ctx, std::move(done))->Begin();
  }

 private:
  int table_;
  tensorflow::int64 rows_;
  tensorflow::int64 dim_;
  bool training_;
};

class ReadsLiveOp : public tensorflow::OpKernel {
 public:
  explicit ReadsLiveOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("tables", &tables_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    bool live = true;
    for (const tensorflow::int32 table : tables_) {
      std::shared_ptr<const FixedRows> rows;
      OP_REQUIRES_OK(ctx, RowsInstead(ctx, table, &rows));
      live = live && rows == nullptr;
    }
    tensorflow::Tensor* out;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, {}, &out));
    out->scalar<bool>()() = live;
  }

 private:
  std::vector<tensorflow::int32> tables_;
};

class CutOp : public tensorflow::AsyncOpKernel {
 public:
  explicit CutOp(tensorflow::OpKernelConstruction* construction) : AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("kind", &kind_));
    OP_REQUIRES(
        construction, kind_ == layout::kCutThreshold || kind_ == layout::kCutEvict,
        Refuse(Code::kInvalidArgument, "AscCut: kind ", kind_, " is neither ", static_cast<int>(layout::kCutThreshold),
               " (access threshold) nor ", static_cast<int>(layout::kCutEvict), " (feature eviction)"));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    const tensorflow::Tensor& argument = ctx->input(0);
    OP_REQUIRES_ASYNC(ctx, argument.dims() == 0,
                      Refuse(Code::kInvalidArgument, "AscCut: the argument has shape ", argument.shape().DebugString(),
                             ", expected a scalar"),
                      done);
    const std::int64_t value = argument.scalar<tensorflow::int64>()();
    std::shared_ptr<Pipeline> pipeline;
    Table* table;
    StepEnd* step;
    OP_REQUIRES_OK_ASYNC(ctx, PrepareCut(ctx, "AscCut", table_, &pipeline, &table, &step), done);
    if (value < 0) {
      step->Unref();
      OP_REQUIRES_OK_ASYNC(ctx,
                           Refuse(Code::kInvalidArgument, "table '", table->name(),
                                  "': ", kind_ == layout::kCutThreshold ? "access threshold " : "eviction age ", value,
                                  " is below 0. Nothing was changed; give 0 or more"),
                           done);
    }
    std::make_shared<CutWait>(std::move(pipeline), step, table, static_cast<layout::CutKind>(kind_), value, ctx,
                              std::move(done))
        ->Begin();
  }

 private:
  int table_;
  int kind_;
};

REGISTER_KERNEL_BUILDER(Name("AscAttach").Device(tensorflow::DEVICE_CPU), AttachOp);
REGISTER_KERNEL_BUILDER(Name("AscTableInit").Device(tensorflow::DEVICE_CPU), TableInitOp);
REGISTER_KERNEL_BUILDER(Name("AscReadsLive").Device(tensorflow::DEVICE_CPU), ReadsLiveOp);
REGISTER_KERNEL_BUILDER(Name("AscCut").Device(tensorflow::DEVICE_CPU), CutOp);

}  // namespace ascpipe
