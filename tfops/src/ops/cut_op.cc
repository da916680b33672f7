// AscCut: another access threshold, or feature eviction, exactly between two trained steps.
#include "bridge/cut.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

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
Changes a table exactly between two trained steps; returns when the change is applied.

It holds the lease alone until the end of its step, so it first waits for training steps and evaluations under way.
A step that trains a batch may not run it.

argument: int64 scalar, 0 or more.  Of kind 2: a new access threshold, or 0: occurrences are no longer counted;
  without effect on a table that admits every key.  Of kind 3: the age, in the unit of the timestamps, from which on
  a key is dropped; a dropped key that comes back gets a new row.
table: number of the table.
kind: 2 access threshold, 3 feature eviction.
)doc");

namespace ascpipe {

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

REGISTER_KERNEL_BUILDER(Name("AscCut").Device(tensorflow::DEVICE_CPU), CutOp);

}  // namespace ascpipe
