// AscReadRows: home rows by handle.
#include <memory>

#include "bridge/handled_rows.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscReadRows")
    .Input("handles: int64")
    .Output("rows: float")
    .Attr("width: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle handles;
      tensorflow::int64 width;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &handles));
      TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
      c->set_output(0, c->Matrix(c->Dim(handles, 0), width));
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Reads rows of an expansion table: the embedding, then each optimizer slot.

handles: int64[m] of AscLocalRows in the same step, all of one table, repeats allowed; 0 gives zeros.
rows: float[m, width], the first `width` floats of each row.
width: 1 to the floats of a whole row.
)doc");

namespace ascpipe {

class ReadRowsOp : public tensorflow::OpKernel {
 public:
  explicit ReadRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("width", &width_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;  // its mapping stays while rows are read from it
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindHandledRows(ctx, width_, &pipeline, &table));
    const tensorflow::Tensor& handles = ctx->input(0);
    tensorflow::Tensor* rows;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({handles.NumElements(), width_}), &rows));
    ReadRowsTogether(ctx, table.home, AsInt64(handles), handles.NumElements(), width_, rows->flat<float>().data());
  }

 private:
  tensorflow::int64 width_;
};

REGISTER_KERNEL_BUILDER(Name("AscReadRows").Device(tensorflow::DEVICE_CPU), ReadRowsOp);

}  // namespace ascpipe
