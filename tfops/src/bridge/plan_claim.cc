// Policies of waits that claim plans. A claim changes the part's word from PLANNED to CLAIMED by CAS, moves the rows,
// and changes the word to DONE.
#include <memory>
#include <utility>
#include <vector>

#include "bridge/pending_claim.h"
#include "bridge/plan_moves.h"
#include "bridge/plan_wait.h"
#include "bridge/status.h"
#include "core/atomics.h"
#include "core/bell.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {

// Policy of a training step for one table.
class ClaimPolicy : public PlanPolicy {
 public:
  // If `claims` is false, the policy waits until it could claim the plan, but does not claim it. Evaluations of the
  // step then read the tables in the state in which the step will claim its plans.
  ClaimPolicy(PlanRequest request, bool claims) : batch_(std::move(request)), claims_(claims) {}

  bool Poll(PlanWait* wait, CoreStatus* status) override {
    Pipeline& pipeline = wait->pipeline();
    StepEnd& step = wait->step();
    if (pipeline.lease().GiveUpShare(step.id())) pipeline.waiter().Wake();
    if (Decided(wait, status)) return true;
    if (!ready_) return false;
    if (batch_.request().pends && !wait->MayClaim(batch_.request().stream->number())) return false;
    if (!pipeline.lease().HoldsExclusive(step.id())) {
      if (!wait->TryExclusive()) return false;
      // The previous owner of the lease may have closed or finished the ticket of this wait.
      if (Decided(wait, status)) return true;
    }
    if (ready_) step.Trains();
    return ready_;
  }

  void Left(PlanWait* wait) override {
    if (batch_.table()->wanter == wait) batch_.table()->wanter = nullptr;
  }

  bool Proceed(PlanWait* wait, Status* status) override {
    if (!claims_) return true;
    std::vector<StateRows> state;
    *status = AllocateOnce(wait->ctx());
    if (status->ok()) *status = batch_.Attach(wait->ctx(), &state);
    if (status->ok()) *status = batch_.table()->FitsHome(state);
    if (!status->ok()) return true;
    if (!CompareExchange(batch_.word(), static_cast<std::uint32_t>(layout::kPlanned),  // SYNC plan: load
                         static_cast<std::uint32_t>(layout::kClaimed))) {              // SYNC plan-claimed: store
      return false;  // the worker has just revoked the plan
    }
    *status = Claimed(wait, std::unique_ptr<PlanMoves>(
                                new PlanMoves(batch_.part(), batch_.table(), std::move(state), std::move(*outputs_))));
    if (!status->ok()) wait->EndRun(*status);
    return true;
  }

 private:
  // Allocates the outputs if they are not allocated yet, because TensorFlow does not allow allocating an output twice.
  // A new plan of the ticket has the same keys and sizes as the old plan.
  Status AllocateOnce(OpKernelContext* ctx) {
    if (outputs_ != nullptr) return OkStatus();
    outputs_.reset(new PlanOutputs);
    return batch_.Allocate(ctx, outputs_.get());
  }

  // Returns true if *status is an error. If there is no error, sets `ready_` to true if the step may try to claim the
  // plan.
  bool Decided(PlanWait* wait, CoreStatus* status) {
    if (!wait->step().MayTrain()) {
      *status = Error(Code::kFailedPrecondition, "table '", wait->table_name, "' cannot train ticket ",
                      SequenceOf(wait->ticket),
                      " in a step that also changes a table (access threshold, feature "
                      "eviction, initializer): the order of the two would be undefined. Nothing was "
                      "trained. Run the change in a run of its own, before or after the training step");
      return true;
    }
    const ClaimVerdict verdict = DecideClaim(batch_.ReadWords(wait));
    const ClaimVerdict::Kind kind = wait->Follow(verdict, status);
    ready_ = kind == ClaimVerdict::kReady;
    if (kind == ClaimVerdict::kWait && verdict.wants) Want(wait);
    if (kind == ClaimVerdict::kWait && batch_.request().pends) {
      wait->pipeline().ranked(batch_.request().stream->number())->DropClosed();
    }
    if (ready_ && !ImagesFit()) {
      ready_ = false;
      wait->waits_for = layout::kWaitSave;
    }
    return kind == ClaimVerdict::kError;
  }

  bool ImagesFit() {
    const bool fit = PlanMoves::ImagesFit(batch_.part(), batch_.table());
    if (!fit && !waited_for_save_) Count(&batch_.table()->header()->save_waits, std::int64_t{1});
    waited_for_save_ = !fit;
    return fit;
  }

  // Publishes the ticket of this wait as `wanted`, unless a wait for an earlier ticket of the table is pending.
  void Want(PlanWait* wait) {
    Wait*& wanter = batch_.table()->wanter;
    if (wanter == wait || (wanter != nullptr && wanter->ticket <= wait->ticket)) return;
    wanter = wait;
    Exchange(&batch_.ring().table(batch_.index())->wanted, wait->ticket);
    wait->pipeline().RingTableWorker(batch_.ring(), batch_.index());
  }

  // Claimed must not wait, allocate outputs or return early before the word is DONE. Claimed rings the worker only at
  // DONE, so that the worker does not compete with the threads that move rows.
  Status Claimed(PlanWait* wait, std::unique_ptr<PlanMoves> moves) {
    PlanRequest& request = batch_.request();
    if (!request.pends) request.stream->CountTrained(request.ticket->record());
    const Status status = moves->CarryOut(wait->ctx());
    if (status.ok() && request.pends) {
      wait->step().Pends(PendingClaim(request.stream, batch_.part(), request.ticket.get(), std::move(moves)));
    } else if (status.ok()) {
      FinishClaim(batch_.part(), wait->ticket);
      if (request.rings) RingUnlessPausing(wait->pipeline().TableWorkerBell(*request.stream, batch_.index()));
    }
    wait->step().BeginHandles(batch_.table(), wait->ticket);
    wait->step().Claimed(std::move(request.ticket));
    wait->pipeline().waiter().Wake();
    return status;
  }

  PlanBatch batch_;
  const bool claims_;
  bool ready_ = false;
  bool waited_for_save_ = false;
  std::unique_ptr<PlanOutputs> outputs_;  // null: not allocated yet
};

// Policy of a step that has reverted its claims in StepEnd::PutAside; used only with several ranks. One
// ClaimAgainPolicy claims the plans of all tables again.
class ClaimAgainPolicy : public PlanPolicy {
 public:
  explicit ClaimAgainPolicy(int stream) : stream_(stream) {}

  bool Poll(PlanWait* wait, CoreStatus* status) override {
    if (!wait->MayClaim(stream_)) return false;
    for (const PendingClaim& claim : wait->step().pending()) {
      const PartView& part = claim.part();
      const ClaimVerdict verdict = DecideClaim(WordsOf(part.ring(), part.index(), claim.ticket(), claim.table()));
      wait->ticket = claim.ticket().number();
      wait->table_name = claim.table().name();
      const ClaimVerdict::Kind kind = wait->Follow(verdict, status);
      if (kind == ClaimVerdict::kError) return true;
      if (kind == ClaimVerdict::kReady) {
        if (PlanMoves::ImagesFit(part, &claim.table())) continue;
        wait->waits_for = layout::kWaitSave;
        return false;
      }
      std::int64_t* const wanted = &part.ring().table(part.index())->wanted;
      if (verdict.wants && LoadAcquire(wanted) != wait->ticket) {
        Exchange(wanted, wait->ticket);
        wait->pipeline().RingTableWorker(part.ring(), part.index());
      }
      return false;
    }
    return wait->TryExclusive();
  }

  bool Proceed(PlanWait* wait, Status* status) override {
    std::vector<PendingClaim>& claims = wait->step().pending();
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (claims[i].TryAgain()) continue;
      while (i-- > 0) claims[i].TakeBackUnmoved();
      wait->pipeline().lease().Release(wait->step().id());
      return false;
    }
    for (const PendingClaim& claim : claims) status->Update(claim.CarryOutAgain(wait->ctx()));
    if (!status->ok()) wait->EndRun(*status);
    wait->step().HasClaimedAgain(status->ok());
    return true;
  }

 private:
  const int stream_;
};

}  // namespace

std::unique_ptr<PlanPolicy> ClaimsPlan(PlanRequest request) {
  return std::unique_ptr<PlanPolicy>(new ClaimPolicy(std::move(request), true));
}

std::unique_ptr<PlanPolicy> AwaitsTurn(PlanRequest request) {
  return std::unique_ptr<PlanPolicy>(new ClaimPolicy(std::move(request), false));
}

void ClaimAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended, int stream) {
  std::make_shared<PlanWait>(std::move(pipeline), step, ctx, std::move(ended),
                             std::unique_ptr<PlanPolicy>(new ClaimAgainPolicy(stream)))
      ->Begin();
}

}  // namespace ascpipe
