// Home rows that ops access by handles.
#ifndef ASCPIPE_BRIDGE_HANDLED_ROWS_H_
#define ASCPIPE_BRIDGE_HANDLED_ROWS_H_

#include <memory>

#include "bridge/pipeline.h"
#include "core/home_rows.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Returns the handles of a tensor as std::int64_t, which differs from the type tensorflow::int64.
inline const std::int64_t* AsInt64(const tensorflow::Tensor& handles) {
  return reinterpret_cast<const std::int64_t*>(handles.flat<tensorflow::int64>().data());
}
inline std::int64_t* AsInt64(tensorflow::Tensor* handles) {
  return reinterpret_cast<std::int64_t*>(handles->flat<tensorflow::int64>().data());
}

// Finds the expansion table `number`. The pipeline keeps the table's rows mapped.
tensorflow::Status FindExpansionTable(int number, std::shared_ptr<Pipeline>* pipeline, HandledTable* table);

// Finds the table of the handles in input 0, and validates every handle. The op uses the first `width` floats of each
// row. If all handles are 0, *pipeline and *table are not set.
tensorflow::Status FindHandledRows(tensorflow::OpKernelContext* ctx, std::int64_t width,
                                   std::shared_ptr<Pipeline>* pipeline, HandledTable* table);

// Calls ReadRows for all handles on several threads.
void ReadRowsTogether(tensorflow::OpKernelContext* ctx, const HomeRows& home, const std::int64_t* handles,
                      std::int64_t count, std::int64_t width, float* out);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_HANDLED_ROWS_H_
