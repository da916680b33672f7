// AscReadPosition returns the position of a batch of a dataset that reads files.
#include "bridge/read_memory.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscReadPosition")
    .Input("batch: T")
    .Output("position: int64")
    .Attr("T: list(type) >= 1")
    .SetIsStateful()  // the result depends on the memory of the tensors
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(4));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Returns the position of AscReadDataset after a batch.

batch: Tensors of the batch, possibly after maps. At least one of them, or the tensor that it is a slice of, is a tensor
  that the dataset returned.
position: int64[4]: source, pass, epoch, and consumed records. The source is 0 if no tensor is from the dataset.
)doc");

namespace ascpipe {

class ReadPositionOp : public tensorflow::OpKernel {
 public:
  explicit ReadPositionOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ReadPosition found;
    for (int i = 0; i < ctx->num_inputs() && found.source == 0; ++i) found = ReadMemory::PositionOf(ctx->input(i));
    tensorflow::Tensor* out;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({4}), &out));
    const auto position = out->vec<tensorflow::int64>();
    position(0) = found.source;
    position(1) = found.pass;
    position(2) = found.epoch;
    position(3) = found.consumed;
  }
};

REGISTER_KERNEL_BUILDER(Name("AscReadPosition").Device(tensorflow::DEVICE_CPU), ReadPositionOp);

}  // namespace ascpipe
