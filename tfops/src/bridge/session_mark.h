// The session an op runs in: each session has a resource manager, in which we store a number.
#ifndef ASCPIPE_BRIDGE_SESSION_MARK_H_
#define ASCPIPE_BRIDGE_SESSION_MARK_H_

#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Numbers grow: of two sessions, the one that used ascpipe first has the smaller one.
tensorflow::Status SessionNumber(tensorflow::OpKernelContext* ctx, tensorflow::int64* number);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_SESSION_MARK_H_
