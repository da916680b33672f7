// AscTableInit: the initial value of a table variable, which lies over the rows of the table instance.
#include "bridge/cut.h"
#include "bridge/instance.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

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
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Gives a table variable the rows of the table in this process.

With training = true a table that is not empty is emptied first, so running a training graph's initializer
starts from scratch.  With training = false the variable is attached and nothing changes; a session that read the table
from a checkpoint reads the live one from then on.  The content of rows that
belong to no key is not defined.

device_rows: float[rows, dim]; the first Assign keeps its memory instead of copying it.
table: number of the table.
rows: device rows of the table.
dim: length of a row.
training: whether the graph trains the table.
)doc");

namespace ascpipe {

namespace {

// Empties the table, then gives its rows.
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
    }
    ctx()->set_output(0, reset_.RowsTensor());
    End(tensorflow::Status::OK());
  }

 private:
  const Table& reset_;
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

REGISTER_KERNEL_BUILDER(Name("AscTableInit").Device(tensorflow::DEVICE_CPU), TableInitOp);

}  // namespace ascpipe
