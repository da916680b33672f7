// The waits of plan ops (a training step claims a plan, an evaluation asks and reads) and of AscTurn.
#ifndef ASCPIPE_BRIDGE_PLAN_WAIT_H_
#define ASCPIPE_BRIDGE_PLAN_WAIT_H_

#include <memory>
#include <vector>

#include "bridge/async_wait.h"
#include "bridge/instance.h"
#include "bridge/pipeline.h"
#include "bridge/step_end.h"

namespace ascpipe {

// The checked arguments of AscNextPlan, or of AscPlans for one of its tables.
struct PlanRequest {
  Stream* stream = nullptr;
  Table* table = nullptr;
  int table_index = -1;  // in the stream's ring
  int features = 0;
  int send_count = 0;  // distinct keys for each feature at most; 0: any number
  TicketHold ticket;
  OptimizerSlots slots;
  int state = 1;    // number of the input that is the table's variable; its optimizer slots follow
  int output = 0;   // number of the output that is the slots
  int restore = 1;  // number of the first output that is a restore index
  bool rings = true;  // the table worker once it is trained; else the caller does
  bool pends = false;  // of several ranks: a claim counts, and rows were read, only when all ranks have done so
  std::shared_ptr<const FixedRows> rows;  // evaluation reads these; null: the live table
};

// A wait for the plan of one table.
class PlanWait : public AsyncWait {
 public:
  using AsyncWait::AsyncWait;
  std::int64_t ids() const { return ids_; }  // of the batch; 0: it had no frame when it was polled

 protected:
  std::int64_t ids_ = 0;
};

// Takes over one reference to `step`.
std::shared_ptr<PlanWait> MakePlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                                       tensorflow::OpKernelContext* ctx, Ended ended);

// Takes over one reference to `step`; only waits until a training batch could be claimed and the step has the lease alone.
void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                   tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_WAIT_H_
