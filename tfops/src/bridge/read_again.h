// The wait of an evaluation of several ranks that gave its lease to others, until the same rows may be read again.
#ifndef ASCPIPE_BRIDGE_READ_AGAIN_H_
#define ASCPIPE_BRIDGE_READ_AGAIN_H_

#include <memory>

#include "bridge/async_wait.h"

namespace ascpipe {

// Takes over one reference to `step`, which has put its reads aside. When it has ended well, all of them are answered.
void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
               int stream);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_AGAIN_H_
