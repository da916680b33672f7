// AscReadPosition returns the position of a batch of a dataset that reads files. AscWithPosition attaches the position
// of a batch to other tensors.
#include <cstring>

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

REGISTER_OP("AscWithPosition")
    .Input("batch: T")
    .Input("tensors: U")
    .Output("results: U")
    .Attr("T: list(type) >= 1")
    .Attr("U: list(type) >= 1")
    .SetIsStateful()  // the result depends on the memory of the tensors
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      const int before = c->num_inputs() - c->num_outputs();
      for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(before + i));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Returns tensors that were computed from a batch, with the position of the batch.

Numeric tensors are copied into memory that has the position. The results are the unchanged tensors if the batch has no
position.

batch: As in AscReadPosition.
tensors: Any tensors.
results: The values of `tensors`.
)doc");

namespace ascpipe {

namespace {

ReadPosition PositionOfInputs(tensorflow::OpKernelContext* ctx, int count) {
  ReadPosition found;
  for (int i = 0; i < count && found.source == 0; ++i) found = ReadMemory::PositionOf(ctx->input(i));
  return found;
}

}  // namespace

class ReadPositionOp : public tensorflow::OpKernel {
 public:
  explicit ReadPositionOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const ReadPosition found = PositionOfInputs(ctx, ctx->num_inputs());
    tensorflow::Tensor* out;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({4}), &out));
    const auto position = out->vec<tensorflow::int64>();
    position(0) = found.source;
    position(1) = found.pass;
    position(2) = found.epoch;
    position(3) = found.consumed;
  }
};

class WithPositionOp : public tensorflow::OpKernel {
 public:
  explicit WithPositionOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {}

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const int before = ctx->num_inputs() - ctx->num_outputs();
    const ReadPosition position = PositionOfInputs(ctx, before);
    const ReadMemory::Owned memory = ReadMemory::Make(position);
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      const tensorflow::Tensor& given = ctx->input(before + i);
      if (position.source == 0 || given.NumElements() == 0 || !tensorflow::DataTypeCanUseMemcpy(given.dtype())) {
        ctx->set_output(i, given);
        continue;
      }
      tensorflow::Tensor copy(memory.get(), given.dtype(), given.shape());
      OP_REQUIRES(ctx, copy.IsInitialized(),
                  Refuse(Code::kResourceExhausted, "no memory for ", given.TotalBytes(), " bytes of a batch"));
      const auto bytes = given.tensor_data();
      std::memcpy(const_cast<char*>(copy.tensor_data().data()), bytes.data(), bytes.size());
      ctx->set_output(i, copy);
    }
  }
};

REGISTER_KERNEL_BUILDER(Name("AscWithPosition").Device(tensorflow::DEVICE_CPU), WithPositionOp);
REGISTER_KERNEL_BUILDER(Name("AscReadPosition").Device(tensorflow::DEVICE_CPU), ReadPositionOp);

}  // namespace ascpipe
