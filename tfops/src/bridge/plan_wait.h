// The waits of AscNextPlan (a training step claims a plan, an evaluation asks and reads) and of AscTurn.
#ifndef ASCPIPE_BRIDGE_PLAN_WAIT_H_
#define ASCPIPE_BRIDGE_PLAN_WAIT_H_

#include <memory>
#include <vector>

#include "bridge/async_wait.h"
#include "bridge/instance.h"
#include "bridge/pipeline.h"
#include "bridge/step_end.h"

namespace ascpipe {

// The checked arguments of one run of AscNextPlan.
struct PlanRequest {
  Stream* stream = nullptr;
  Table* table = nullptr;
  int table_index = -1;  // in the stream's ring
  int features = 0;
  TicketHold ticket;
  OptimizerSlots slots;
  std::shared_ptr<const FixedRows> rows;  // evaluation reads these; null: the live table
};

// Takes over one reference to `step`; calls `done` when the outputs are there, or with an error.
void BeginPlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                   tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

// The same, but only waits until a training batch could be claimed and the step has the lease alone.
void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                   tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_WAIT_H_
