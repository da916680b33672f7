// Op outputs that contain the restore indexes of a batch in one table.
#ifndef ASCPIPE_BRIDGE_RESTORES_H_
#define ASCPIPE_BRIDGE_RESTORES_H_

#include "bridge/compatibility.h"
#include "core/part_view.h"
#include "core/row_moves.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Allocates one output per feature of the part, starting with output `first`. Each output has the shape of the
// feature's ids.
inline tensorflow::Status AllocateRestores(tensorflow::OpKernelContext* ctx, const PartView& part, int first,
                                           PlanOutputs* outputs) {
  for (int feature = 0; feature < part.features(); ++feature) {
    const layout::Spec& spec = part.spec(feature);
    tensorflow::TensorShape shape;
    for (std::int64_t axis = 0; axis < spec.rank; ++axis) shape.AddDim(spec.shape[axis]);
    tensorflow::Tensor* out;
    TF_RETURN_IF_ERROR(ctx->allocate_output(first + feature, shape, &out));
    outputs->restores.push_back({out->flat<tensorflow::int32>().data(), out->NumElements()});
  }
  return OkStatus();
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RESTORES_H_
