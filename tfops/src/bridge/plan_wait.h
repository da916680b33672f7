// The waits of plan ops (a training step claims a plan, an evaluation asks and reads) and of AscTurn, and of steps of
// several ranks that claim or read again.  A wait has a policy: plan_claim.cc has those that claim, plan_read.cc those
// that read.
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

// The checked arguments of AscNextPlan, or of AscPlans for one of its tables.
struct PlanRequest {
  Stream* stream = nullptr;
  Table* table = nullptr;
  int table_index = -1;  // in the stream's ring
  int features = 0;
  int send_count = 0;  // distinct keys for each feature at most; 0: any number
  TicketHold ticket;
  OptimizerSlots slots;
  int state = 1;       // number of the input that is the table's variable; its optimizer slots follow
  int output = 0;      // number of the output that is the slots
  int restore = 1;     // number of the first output that is a restore index
  bool rings = true;   // the table worker once it is trained; else the caller does
  bool pends = false;  // of several ranks: a claim counts, and rows were read, only when all ranks have done so
  std::shared_ptr<const FixedRows> rows;  // evaluation reads these; null: the live table
};

class PlanWait;

// Decides when a wait is over, and carries out what follows.  Used by one thread at a time.
class PlanPolicy {
 public:
  virtual ~PlanPolicy() = default;
  // As Wait::Poll and Wait::Left.
  virtual bool Poll(PlanWait* wait, CoreStatus* status) = 0;
  virtual void Left(PlanWait*) {}
  // After a successful Poll, on a thread of TensorFlow's.  True: the wait ends with *status.  False: it continues.
  virtual bool Proceed(PlanWait* wait, tensorflow::Status* status) = 0;
};

class PlanWait final : public AsyncWait {
 public:
  // Takes over one reference to `step`.
  PlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
           std::unique_ptr<PlanPolicy> policy)
      : AsyncWait(std::move(pipeline), step, ctx, std::move(ended)), policy_(std::move(policy)) {}

  bool Poll(CoreStatus* status) override { return policy_->Poll(this, status); }
  void Left() override { policy_->Left(this); }

  std::int64_t ids() const { return ids_; }  // of the batch; 0: it had no frame when it was polled

  // For policies.  Those that ask for something set what the wait waits for.
  using AsyncWait::ctx;
  using AsyncWait::pipeline;
  using AsyncWait::step;
  bool MayClaim(int stream);  // among several ranks
  bool TryShare();
  bool TryExclusive();
  // Returns the kind of a verdict; *status is its error.
  ClaimVerdict::Kind Follow(const ClaimVerdict& verdict, CoreStatus* status);
  void NoteIds(std::int64_t ids) { ids_ = ids; }
  // A claimed plan that fails leaves the table between two steps: the run is over.
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
  // As last read while the ticket was open: a stop of the pipeline closes tickets while their step still runs.
  std::int64_t frame() const { return frame_; }
  PartView part() const { return PartView(ring(), request_.ticket->record(), index()); }  // once it has a frame
  std::uint32_t* word() const { return ring().word(index(), frame()); }
  // Another step that shares the ticket may close it; its frame may then be reused.
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

// The words that decide a claim or a read of a ticket in one table.
ClaimWords WordsOf(const RingView& ring, int index, const Ticket& ticket, const Table& table);

// The policies.
std::unique_ptr<PlanPolicy> ClaimsPlan(PlanRequest request);
std::unique_ptr<PlanPolicy> AwaitsTurn(PlanRequest request);  // waits as a claim, and claims nothing
std::unique_ptr<PlanPolicy> ReadsPlan(PlanRequest request);
std::unique_ptr<PlanPolicy> ReadsFixedRows(PlanRequest request);  // of a checkpoint

// Takes over one reference to `step`.
std::shared_ptr<PlanWait> MakePlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                                       tensorflow::OpKernelContext* ctx, Ended ended);

// Takes over one reference to `step`; only waits until a training batch could be claimed and the step has the lease
// alone.
void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                   tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

// Of several ranks.  Takes over one reference to `step`, which has put its claims aside; claims the same plans again.
void ClaimAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
                int stream);
// The same for a step that has put its reads aside: it gave its lease to others.  All reads are answered at the end.
void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended,
               int stream);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PLAN_WAIT_H_
