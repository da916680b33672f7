// AscReadsLive: whether a session reads the live tables.
#include <vector>

#include "bridge/instance.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscReadsLive")
    .Output("live: bool")
    .Attr("tables: list(int)")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Whether this session reads the live state of all these tables, and none of them from a checkpoint.

live: bool scalar.
tables: numbers of the tables.
)doc");

namespace ascpipe {

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

REGISTER_KERNEL_BUILDER(Name("AscReadsLive").Device(tensorflow::DEVICE_CPU), ReadsLiveOp);

}  // namespace ascpipe
