// Asynchronous waits of plan ops and AscTurn. With several ranks, a step also repeats its claims or reads with these
// waits. A training step claims a plan. An evaluation requests the slots of its keys and reads the rows. The policies
// that claim are in plan_claim.cc, and the policies that read are in plan_read.cc.
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

// Validated arguments of AscNextPlan, or of one table of AscPlans.
struct PlanRequest {
  Stream* stream = nullptr;
  Table* table = nullptr;
  int table_index = -1;  // index of the table in the stream's ring
  int features = 0;
  int send_count = 0;  // maximum number of distinct keys per feature; 0: unlimited
  TicketHold ticket;
  OptimizerSlots slots;
  int state = 1;       // index of the input that is the table's variable; its optimizer slots follow
  int output = 0;      // index of the output with the slots
  int restore = 1;     // index of the first output that is a restore index
  bool rings = true;   // ring the table worker at DONE; otherwise the caller rings it
  bool pends = false;  // with several ranks, a claim or read is final only after all ranks have finished it
  std::shared_ptr<const FixedRows> rows;  // rows that an evaluation reads; null: rows of the live table
};

class PlanWait;

// Policy of a PlanWait. Decides when the wait is over, and executes the claim or read after the wait. Only one thread
// at a time may use a policy.
class PlanPolicy {
 public:
  virtual ~PlanPolicy() = default;
  // Poll and Left correspond to Wait::Poll and Wait::Left.
  virtual bool Poll(PlanWait* wait, CoreStatus* status) = 0;
  virtual void Left(PlanWait*) {}
  // Proceed is called on a TensorFlow thread after Poll has returned true. Proceed returns true if the wait ends with
  // *status, and false if the wait continues.
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

  std::int64_t ids() const { return ids_; }  // number of ids of the batch; 0: no frame was found yet

  // Functions for policies. A policy that sends a request must set `waits_for`.
  using AsyncWait::ctx;
  using AsyncWait::pipeline;
  using AsyncWait::step;
  bool MayClaim(int stream);  // call it only with several ranks
  bool TryShare();
  bool TryExclusive();
  // Returns the kind of a verdict. Copies the verdict's error to *status, and the reason for the wait to `waits_for`.
  ClaimVerdict::Kind Follow(const ClaimVerdict& verdict, CoreStatus* status);
  void NoteIds(std::int64_t ids) { ids_ = ids; }
  // Ends the run, because a failure after the claim leaves the table in an inconsistent state.
  void EndRun(const tensorflow::Status& status);

 protected:
  void Proceed() override;

 private:
  const std::unique_ptr<PlanPolicy> policy_;
  std::int64_t ids_ = 0;
};

// The part of a plan op's batch that belongs to one table.
class PlanBatch {
 public:
  explicit PlanBatch(PlanRequest request) : request_(std::move(request)) {}

  PlanRequest& request() { return request_; }
  Table* table() const { return request_.table; }
  int index() const { return request_.table_index; }
  const RingView& ring() const { return request_.stream->ring(); }
  // Returns the frame number that ReadWords has found. The ticket may have been closed after ReadWords, because a stop
  // of the pipeline closes tickets of running steps.
  std::int64_t frame() const { return frame_; }
  // Call part and word only if the ticket has a frame.
  PartView part() const { return PartView(ring(), request_.ticket->record(), index()); }
  std::uint32_t* word() const { return ring().word(index(), frame()); }
  // Returns true if the ticket was closed by another step that shares the ticket, or by a stop of the pipeline. The
  // frame of a closed ticket may have been reused.
  bool IsClosed() const { return request_.ticket->state() != frame_; }

  ClaimWords ReadWords(PlanWait* wait);
  // Allocates the outputs. The sizes of the outputs are known only after the keys are deduplicated.
  tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, PlanOutputs* outputs) const;
  // Attaches the variables of the table, and returns their state arrays.
  tensorflow::Status Attach(tensorflow::OpKernelContext* ctx, std::vector<StateRows>* state) const {
    return table()->Attach(ctx, request_.state, request_.slots, state);
  }

 private:
  PlanRequest request_;
  std::int64_t frame_ = 0;
};

// Returns the state of a ticket and of one table in a ring. From the state, a step decides whether to claim or read the
// batch.
ClaimWords WordsOf(const RingView& ring, int index, const Ticket& ticket, const Table& table);

// Functions that create policies.
std::unique_ptr<PlanPolicy> ClaimsPlan(PlanRequest request);
std::unique_ptr<PlanPolicy> AwaitsTurn(PlanRequest request);  // waits like a claim, but claims nothing
std::unique_ptr<PlanPolicy> ReadsPlan(PlanRequest request);
std::unique_ptr<PlanPolicy> ReadsFixedRows(PlanRequest request);  // reads rows of a checkpoint

// Creates the wait of a plan op. Takes ownership of one reference to `step`.
std::shared_ptr<PlanWait> MakePlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                                       tensorflow::OpKernelContext* ctx, Ended ended);

// Waits until the batch can be claimed and the step holds the lease exclusively, but does not claim the batch. Takes
// ownership of one reference to `step`.
void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                   tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

// Claims the same plans again for a step after StepEnd::PutAside. Used only with several ranks. Takes ownership of one
// reference to `step`.
void ClaimAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
                int stream);
// Reads the same tables again for a step after StepEnd::PutReadsAside. Used only with several ranks. When the wait
// ends, the table workers have answered all reads.
void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
               int stream);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_WAIT_H_
