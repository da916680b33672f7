// Number that identifies the session of an op. The number is stored in the session's resource manager.
#ifndef ASCPIPE_BRIDGE_SESSION_MARK_H_
#define ASCPIPE_BRIDGE_SESSION_MARK_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Returns the number of the op's session. Sessions are numbered in the order in which they first use ascpipe.
tensorflow::Status SessionNumber(tensorflow::OpKernelContext* ctx, tensorflow::int64* number);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SESSION_MARK_H_
