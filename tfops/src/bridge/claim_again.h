// The wait of a step of several ranks that put its claims aside, until it may claim the same plans again.
#ifndef ASCPIPE_BRIDGE_CLAIM_AGAIN_H_
#define ASCPIPE_BRIDGE_CLAIM_AGAIN_H_

#include <memory>

#include "bridge/async_wait.h"

namespace ascpipe {

// Takes over one reference to `step`, which has put its claims aside.
void ClaimAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
                int stream);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_CLAIM_AGAIN_H_
