// Rows that all ranks request from this rank. This code runs only in programs with several ranks.
#ifndef ASCPIPE_BRIDGE_ASKED_ROWS_H_
#define ASCPIPE_BRIDGE_ASKED_ROWS_H_

#include "bridge/step_rows.h"
#include "bridge/table.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Gathers the rows that the ranks requested, in the order of the ranks. The rows belong to a claimed plan or to an
// evaluation. If an evaluation has copied rows from a table with rows on disk, `copies` contains these rows. Otherwise
// `copies` is null. `slots` has one int32 for each key in the union of the requested keys. `restore` is int32[n] and
// contains indexes into `slots`. `rows` is float[n, dim].
tensorflow::Status GatherAsked(tensorflow::OpKernelContext* ctx, const Table& table, const StepRows* copies,
                               const tensorflow::Tensor& slots, const tensorflow::Tensor& restore, float* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ASKED_ROWS_H_
