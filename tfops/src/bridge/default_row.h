// Row that lookups return for keys without a row.
#ifndef ASCPIPE_BRIDGE_DEFAULT_ROW_H_
#define ASCPIPE_BRIDGE_DEFAULT_ROW_H_

#include <cstdint>
#include <vector>

#include "bridge/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Reads input `place` of an op as float[dim]. The input is float[dim], or a scalar for all columns.
inline tensorflow::Status ReadDefaultRow(tensorflow::OpKernelContext* ctx, int place, std::int64_t dim,
                                         std::vector<float>* row) {
  const tensorflow::Tensor& given = ctx->input(place);
  if (given.dims() > 1 || (given.dims() == 1 && given.dim_size(0) != dim)) {
    return Refuse(Code::kInvalidArgument, ctx->op_kernel().type_string(), ": default_row has shape ",
                  given.shape().DebugString(), ", expected [] or [", dim, "]");
  }
  const float* values = given.flat<float>().data();
  if (given.dims() == 1) {
    row->assign(values, values + dim);
  } else {
    row->assign(static_cast<std::size_t>(dim), *values);
  }
  return OkStatus();
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_DEFAULT_ROW_H_
