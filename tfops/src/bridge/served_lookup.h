// Shared functions of the lookup ops of served tables.
#ifndef ASCPIPE_BRIDGE_SERVED_LOOKUP_H_
#define ASCPIPE_BRIDGE_SERVED_LOOKUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bridge/default_row.h"
#include "bridge/parallel.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ascpipe {

// Shape function of a lookup op with the inputs (scalar, keys, default_row) and an attribute dim.
tensorflow::Status ShapesOfServedLookup(tensorflow::shape_inference::InferenceContext* c);

// Looks up the keys of input 1 in `table`. Input 2 contains the default row. Output 0 contains the rows. The optional
// output 1 contains true for each key that has a row. The class Rows must have the methods dim() and LookUp() of
// RowTable.
template <typename Rows>
void LookUpServed(tensorflow::OpKernelContext* ctx, const std::string& name, const Rows& table, tensorflow::int64 dim) {
  OP_REQUIRES(ctx, table.dim() == dim,
              Refuse(Code::kFailedPrecondition, "table ", name, " has rows of ", table.dim(),
                     " floats, the lookup wants ", dim));
  const tensorflow::Tensor& keys = ctx->input(1);
  std::vector<float> fallback;
  OP_REQUIRES_OK(ctx, ReadDefaultRow(ctx, 2, dim, &fallback));
  tensorflow::TensorShape shape = keys.shape();
  shape.AddDim(dim);
  tensorflow::Tensor* rows;
  OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &rows));
  bool* found = nullptr;
  if (ctx->num_outputs() > 1) {
    tensorflow::Tensor* told;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, keys.shape(), &told));
    found = told->flat<bool>().data();
  }
  float* out = rows->flat<float>().data();
  const auto look_up = [&](const auto* wanted) {
    ShareBlocks(ctx, keys.NumElements(), BlockRows(dim), [&](std::int64_t begin, std::int64_t end) {
      table.LookUp(wanted, begin, end, fallback.data(), out, found);
    });
  };
  if (keys.dtype() == tensorflow::DT_INT32) return look_up(keys.flat<tensorflow::int32>().data());
  // tensorflow::int64 and std::int64_t are different types of the same size.
  look_up(reinterpret_cast<const std::int64_t*>(keys.flat<tensorflow::int64>().data()));
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SERVED_LOOKUP_H_
