// Waits of plan ops, of AscTurn, and of steps with several ranks that claim or read again.  A training step claims a
// plan; an evaluation requests and reads keys.  Policies that claim are in plan_claim.cc, policies that read in
// plan_read.cc.
#ifndef ASCPIPE_BRIDGE_PLAN_WAIT_H_
#define ASCPIPE_BRIDGE_PLAN_WAIT_H_

#include <memory>
#include <utility>
#include <vector>

#include "bridge/async_wait.h"
#include "bridge/instance.h"
#include "bridge/pipeline.h"
#include "bridge/step_end.h"
#include "core/claim.h"
#include "core/part_view.h"

namespace ascpipe {

// Validated arguments of AscNextPlan, or of AscPlans for one of its tables.
struct PlanRequest {
  Stream* stream = nullptr;
  Table* table = nullptr;
  int table_index = -1;  // in the stream's ring
  int features = 0;
  int send_count = 0;  // maximum number of distinct keys per feature; 0: unlimited
  TicketHold ticket;
  OptimizerSlots slots;
  int state = 1;       // number of the input that is the table's variable; its optimizer slots follow
  int output = 0;      // number of the output that is the slots
  int restore = 1;     // number of the first output that is a restore index
  bool rings = true;   // ring the table worker at DONE; otherwise the caller rings it
  bool pends = false;  // of several ranks: a claim counts, and rows were read, only when all ranks have done so
  std::shared_ptr<const FixedRows> rows;  // evaluation reads these; null: the live table
};

class PlanWait;

// Decides when a wait is over, and executes the following action.  Used by one thread at a time.
class PlanPolicy {
 public:
  virtual ~PlanPolicy() = default;
  // See Wait::Poll and Wait::Left.
  virtual bool Poll(PlanWait* wait, CoreStatus* status) = 0;
  virtual void Left(PlanWait*) {}
  // Called after a successful Poll, on a TensorFlow thread.  Returns true if the wait ends with *status, false if it
  // continues.
  virtual bool Proceed(PlanWait* wait, tensorflow::Status* status) = 0;
};

class PlanWait final : public AsyncWait {
 public:
  // Takes ownership of one reference to `step`.
  PlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
           std::unique_ptr<PlanPolicy> policy)
      : AsyncWait(std::move(pipeline), step, ctx, std::move(ended)), policy_(std::move(policy)) {}

  bool Poll(CoreStatus* status) override { return policy_->Poll(this, status); }
  void Left() override { policy_->Left(this); }

  std::int64_t ids() const { return ids_; }  // of the batch; 0: it had no frame when it was polled

  // For policies.  A policy that sends a request sets `waits_for`.
  using AsyncWait::ctx;
  using AsyncWait::pipeline;
  using AsyncWait::step;
  bool MayClaim(int stream);  // among several ranks
  bool TryShare();
  bool TryExclusive();
  // Returns the kind of a verdict; *status is its error.
  ClaimVerdict::Kind Follow(const ClaimVerdict& verdict, CoreStatus* status);
  void NoteIds(std::int64_t ids) { ids_ = ids; }
  // Ends the run: a failed claimed plan leaves the table in an inconsistent state.
  void EndRun(const tensorflow::Status& status);

 protected:
  void Proceed() override;

 private:
  const std::unique_ptr<PlanPolicy> policy_;
  std::int64_t ids_ = 0;
};

// The batch of a plan op in one table.
class PlanBatch {
 public:
  explicit PlanBatch(PlanRequest request) : request_(std::move(request)) {}

  PlanRequest& request() { return request_; }
  Table* table() const { return request_.table; }
  int index() const { return request_.table_index; }
  const RingView& ring() const { return request_.stream->ring(); }
  // Frame number while the ticket was open.  Stopping the pipeline closes tickets while their step still runs.
  std::int64_t frame() const { return frame_; }
  PartView part() const { return PartView(ring(), request_.ticket->record(), index()); }  // once it has a frame
  std::uint32_t* word() const { return ring().word(index(), frame()); }
  // Returns true if another step that shares the ticket has closed it; its frame may have been reused.
  bool IsClosed() const { return request_.ticket->state() != frame_; }

  ClaimWords ReadWords(PlanWait* wait);
  // Allocates the outputs: their sizes are known once the keys are deduplicated.
  tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, PlanOutputs* outputs) const;
  // The variables of the table.
  tensorflow::Status Attach(tensorflow::OpKernelContext* ctx, std::vector<StateRows>* state) const {
    return table()->Attach(ctx, request_.state, request_.slots, state);
  }

 private:
  PlanRequest request_;
  std::int64_t frame_ = 0;
};

// Returns the input of the decision to claim or read a ticket in one table.
ClaimWords WordsOf(const RingView& ring, int index, const Ticket& ticket, const Table& table);

// The policies.
std::unique_ptr<PlanPolicy> ClaimsPlan(PlanRequest request);
std::unique_ptr<PlanPolicy> AwaitsTurn(PlanRequest request);  // waits like a claim, but claims nothing
std::unique_ptr<PlanPolicy> ReadsPlan(PlanRequest request);
std::unique_ptr<PlanPolicy> ReadsFixedRows(PlanRequest request);  // of a checkpoint

// Takes over one reference to `step`.
std::shared_ptr<PlanWait> MakePlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                                       tensorflow::OpKernelContext* ctx, Ended ended);

// Takes ownership of one reference to `step`.  Only waits until a training batch can be claimed and the step has the
// lease exclusively.
void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                   tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

// For several ranks.  Takes ownership of one reference to `step`, which has put its claims aside, and claims the same
// plans again.
void ClaimAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
                int stream);
// For several ranks.  Reads again for a step that has put its reads aside.  All reads are answered at the end.
void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
               int stream);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_WAIT_H_
