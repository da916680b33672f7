// Asynchronous wait of a plan op until the outputs of all its tables are ready.
#ifndef ASCPIPE_BRIDGE_PLAN_GROUP_H_
#define ASCPIPE_BRIDGE_PLAN_GROUP_H_

#include <memory>
#include <vector>

#include "bridge/plan_wait.h"

namespace ascpipe {

// Starts the waits and takes ownership of one reference to `step`. Calls `done` when the waits of all tables have
// ended. The first error ends the remaining waits.
void BeginPlanWaits(std::shared_ptr<Pipeline> pipeline, StepEnd* step, std::vector<PlanRequest> requests,
                    tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_GROUP_H_
