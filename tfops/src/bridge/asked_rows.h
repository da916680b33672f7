// Rows that all ranks request from this rank, if there are several ranks.
#ifndef ASCPIPE_BRIDGE_ASKED_ROWS_H_
#define ASCPIPE_BRIDGE_ASKED_ROWS_H_

#include "bridge/step_rows.h"
#include "bridge/table.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Gathers the rows of a claimed plan, or of an evaluation's read, in rank order.
//   copies   an evaluation's copies of a table with rows on disk, otherwise null
//   slots    int32[union of the requested keys]   restore  int32[n], indexes into slots   rows  float[n, dim]
tensorflow::Status GatherAsked(tensorflow::OpKernelContext* ctx, const Table& table, const StepRows* copies,
                               const tensorflow::Tensor& slots, const tensorflow::Tensor& restore, float* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ASKED_ROWS_H_
