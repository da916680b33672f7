// Several ranks: the rows that all of them ask of this one.
#ifndef ASCPIPE_BRIDGE_ASKED_ROWS_H_
#define ASCPIPE_BRIDGE_ASKED_ROWS_H_

#include "bridge/step_rows.h"
#include "bridge/table.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Gathers the rows of a claimed plan, or of what an evaluation has read, in rank order.
// copies: what an evaluation has copied of a table with rows on disk, else null; slots: int32[union of what ranks ask
// for]; restore: int32[n], index into slots; rows: float[n, dim].
tensorflow::Status GatherAsked(tensorflow::OpKernelContext* ctx, const Table& table, const StepRows* copies,
                               const tensorflow::Tensor& slots, const tensorflow::Tensor& restore, float* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ASKED_ROWS_H_
