// Several ranks: the rows that all of them ask of this one.
#ifndef ASCPIPE_BRIDGE_ASKED_ROWS_H_
#define ASCPIPE_BRIDGE_ASKED_ROWS_H_

#include "bridge/table.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Gathers the rows of a claimed plan, in rank order.
// slots: int32[union of what ranks ask for], of AscNextPlan in training; restore: int32[n], index into slots;
// rows: float[n, dim].
tensorflow::Status GatherAsked(tensorflow::OpKernelContext* ctx, const Table& table, const tensorflow::Tensor& slots,
                               const tensorflow::Tensor& restore, float* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ASKED_ROWS_H_
