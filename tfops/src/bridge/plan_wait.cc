#include "bridge/plan_wait.h"

#include <memory>
#include <utility>

#include "bridge/pending_read.h"
#include "bridge/plan_moves.h"
#include "bridge/restores.h"
#include "bridge/row_reading.h"
#include "bridge/send_limit.h"
#include "bridge/status.h"
#include "core/atomics.h"
#include "core/bell.h"
#include "core/claim.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

class BatchWait : public PlanWait {
 public:
  BatchWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest wanted, OpKernelContext* ctx, Ended ended)
      : PlanWait(std::move(pipeline), step, ctx, std::move(ended)), request_(std::move(wanted)) {
    table = request_.table->number();
    table_name = request_.table->name();
    ticket = request_.ticket->number();
  }

 protected:
  const RingView& ring() const { return request_.stream->ring(); }
  int index() const { return request_.table_index; }
  // As last read while the ticket was open: a stop of the pipeline closes tickets while their step still runs.
  std::int64_t frame() const { return frame_; }
  PartView part() const { return PartView(ring(), request_.ticket->record(), index()); }  // once it has a frame
  std::uint32_t* word() const { return ring().word(index(), frame()); }
  void RingWorker() { Ring(pipeline().TableWorkerBell(*request_.stream, index())); }

  ClaimWords ReadWords() {
    ClaimWords words;
    words.table = table_name;
    words.device_rows = request_.table->sizes().device_rows;
    words.home_rows = request_.table->sizes().home_rows;
    words.disk_rows = request_.table->most_disk_rows();
    ReadClaimWords(ring(), index(), *request_.ticket.get(), &words);
    if (words.state >= 0) frame_ = words.state;
    words.awaits_rows = request_.table->AwaitsRows(words.state);
    if (words.state >= 0) ids_ = part().ids();
    return words;
  }

  // Another step that shares the ticket may close it; its frame may then be reused.
  bool IsClosed() const { return request_.ticket->state() != frame_; }

  // Allocates the outputs: their sizes are known once the keys are deduplicated.
  Status Allocate(PlanOutputs* outputs) {
    const PartView part = this->part();
    const std::int64_t keys = LoadAcquire(&part.shared().unique_count);
    if (part.features() != request_.features || keys < 0 || keys > part.ids()) {
      return Refuse(kE301, "table '", table_name, "': the frame of ticket ", SequenceOf(ticket), " has ",
                    part.features(), " features and ", keys, " distinct ids of ", part.ids(),
                    ". The record is damaged; restart the program");
    }
    const SendLimit limit = {request_.send_count, request_.features};
    TF_RETURN_IF_ERROR(limit.Check(table_name, keys));
    Tensor* out;
    TF_RETURN_IF_ERROR(ctx()->allocate_output(request_.output, TensorShape({keys}), &out));
    outputs->slots = {out->flat<tensorflow::int32>().data(), out->NumElements()};
    return AllocateRestores(ctx(), part, request_.restore, outputs);
  }

  PlanRequest request_;

 private:
  std::int64_t frame_ = 0;
};

// Training: PLANNED -> CLAIMED by CAS, rows, DONE.
class ClaimWait : public BatchWait {
 public:
  using BatchWait::BatchWait;

  bool Poll(CoreStatus* status) override {
    if (pipeline().lease().GiveUpShare(step().id())) pipeline().waiter().Wake();
    if (Decided(status)) return true;
    if (!ready_) return false;
    waits_for = layout::kWaitStep;
    if (request_.pends && !pipeline().ranks()->peers().MayClaim(request_.stream->number())) return false;
    waits_for = layout::kWaitLease;
    if (!pipeline().lease().HoldsExclusive(step().id())) {
      if (!pipeline().lease().TryExclusive(step().id())) return false;
      // The step that held the lease may have closed or finished this ticket.
      if (Decided(status)) return true;
    }
    if (ready_) step().Trains();
    return ready_;
  }

  void Left() override {
    if (request_.table->wanter == this) request_.table->wanter = nullptr;
  }

 protected:
  void Proceed() override {
    std::vector<StateRows> state;
    Status status = AllocateOnce();
    if (status.ok()) status = request_.table->Attach(ctx(), request_.state, request_.slots, &state);
    if (status.ok()) status = request_.table->FitsHome(state);
    if (!status.ok()) {
      End(status);
    } else if (!CompareExchange(word(), static_cast<std::uint32_t>(layout::kPlanned),  // SYNC plan: load
                                static_cast<std::uint32_t>(layout::kClaimed))) {  // SYNC plan-claimed: store
      Again();  // the worker has just revoked the plan
    } else {
      status = Claimed(std::unique_ptr<PlanMoves>(
          new PlanMoves(part(), request_.table, std::move(state), std::move(*outputs_))));
      // A claimed plan that fails leaves the table between two steps: the run is over.
      if (!status.ok()) pipeline().waiter().Fail(CoreStatus(static_cast<Code>(status.code()), status.error_message()));
      End(status);
    }
  }

 private:
  // TensorFlow refuses to allocate an output again.  It need not be: another plan of a ticket is of the same keys.
  Status AllocateOnce() {
    if (outputs_ != nullptr) return Status::OK();
    outputs_.reset(new PlanOutputs);
    return Allocate(outputs_.get());
  }

  // True: *status is an error.  Else `ready_` says whether the claim could go through.
  bool Decided(CoreStatus* status) {
    if (!step().MayTrain()) {
      *status = Error(Code::kFailedPrecondition, "table '", table_name, "' cannot train ticket ", SequenceOf(ticket),
                      " in a step that also changes a table (access threshold, feature eviction, initializer): which "
                      "of the two comes first would be left to chance. Nothing was trained. Run the change in a run "
                      "of its own, before or after the training step");
      return true;
    }
    const ClaimVerdict verdict = DecideClaim(ReadWords());
    ready_ = verdict.kind == ClaimVerdict::kReady;
    *status = verdict.error;
    waits_for = verdict.waits_for;
    if (verdict.kind == ClaimVerdict::kWait && verdict.wants) Want();
    if (verdict.kind == ClaimVerdict::kWait && request_.pends) pipeline().ranked(request_.stream->number())->DropClosed();
    if (ready_ && !ImagesFit()) {
      ready_ = false;
      waits_for = layout::kWaitSave;
    }
    return verdict.kind == ClaimVerdict::kError;
  }

  bool ImagesFit() {
    const bool fit = PlanMoves::ImagesFit(part(), request_.table);
    if (!fit && !waited_for_save_) Count(&request_.table->header()->save_waits, std::int64_t{1});
    waited_for_save_ = !fit;
    return fit;
  }

  // Publishes the first ticket among the waiting claims of a table.
  void Want() {
    Wait*& wanter = request_.table->wanter;
    if (wanter == this || (wanter != nullptr && wanter->ticket <= ticket)) return;
    wanter = this;
    Exchange(&ring().table(index())->wanted, ticket);
    RingWorker();
  }

  // From here to DONE: no wait, no output to allocate, no early return.  The worker is rung only at DONE: work
  // that it does earlier would take processors from the threads that move rows.
  Status Claimed(std::unique_ptr<PlanMoves> moves) {
    const std::int64_t number = frame();
    if (!request_.pends) CountTrained(ring(), number);  // after the CAS, never before
    const Status status = moves->CarryOut(ctx());
    if (status.ok() && request_.pends) {
      step().Pends(PendingClaim(part(), request_.ticket.get(), std::move(moves)));
    } else if (status.ok()) {
      FinishClaim(part(), ticket);
      if (request_.rings) RingUnlessPausing(pipeline().TableWorkerBell(*request_.stream, index()));
    }
    step().BeginHandles(request_.table, ticket);
    step().Claimed(std::move(request_.ticket));
    pipeline().waiter().Wake();
    return status;
  }

  bool ready_ = false;
  bool waited_for_save_ = false;
  std::unique_ptr<PlanOutputs> outputs_;  // null: not allocated yet
};

// Waits like a claim but claims nothing: from now on the step reads the state that its claims will find.
class TurnWait : public ClaimWait {
 public:
  using ClaimWait::ClaimWait;

 protected:
  void Proceed() override { End(Status::OK()); }
};

// Evaluation: DEDUPED -> ASKED by CAS, the worker answers, DONE.  Changes no table.
class ReadWait : public BatchWait {
 public:
  ReadWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest wanted, OpKernelContext* ctx, Ended ended)
      : BatchWait(std::move(pipeline), step, std::move(wanted), ctx, std::move(ended)) {
    if (request_.table->is_on_disk()) reading_.reset(new RowReading(request_.table));
  }

  bool Poll(CoreStatus* status) override {
    const ClaimWords words = ReadWords();
    const ClaimVerdict verdict = DecideRead(words);
    *status = verdict.error;
    waits_for = verdict.waits_for;
    if (verdict.kind == ClaimVerdict::kError) return true;
    if (verdict.kind == ClaimVerdict::kWait) return false;
    if (words.word == layout::kAnswered) {
      if (reading_ != nullptr && asked_) {
        waits_for = layout::kWaitDisk;
        return reading_->MayCopy();
      }
      if (!asked_) *status = Error(Code::kInvalidArgument, "ticket ", SequenceOf(ticket), " is being read by table '",
                                   table_name, "' already: one plan of a table per step");
      return true;
    }
    waits_for = layout::kWaitLease;
    if (!pipeline().lease().TryShare(step().id())) return false;
    waits_for = layout::kWaitRead;
    if (reading_ != nullptr) reading_->Begin();
    asked_ = CompareExchange(word(), static_cast<std::uint32_t>(layout::kDeduped),
                             static_cast<std::uint32_t>(layout::kAsked));  // SYNC keys-asked: store
    RingWorker();
    return false;
  }

 protected:
  void Proceed() override {
    Status status = Read();
    if (IsClosed()) status = ClosedWhileRead(table_name, ticket);  // also of a failure: what it has read is another one's
    if (status.ok() && reading_ != nullptr && reading_->Ask(&pipeline())) {
      Again();
      return;
    }
    if (status.ok()) {
      if (reading_ != nullptr) step().Reads(outputs_.slots.data, reading_->End());
      Exchange(word(), static_cast<std::uint32_t>(layout::kDone));  // SYNC plan-done: store
      if (request_.pends) {
        step().Pends({part(), request_.ticket.get(), request_.table, outputs_.slots});
      }
    }
    step().Claimed(std::move(request_.ticket));
    End(status);
  }

 private:
  // Takes the answer, or the rows on disk that it has asked for.
  Status Read() {
    if (reading_ != nullptr && reading_->is_copying()) return reading_->CopyAsked();
    std::vector<StateRows> state;
    TF_RETURN_IF_ERROR(request_.table->Attach(ctx(), request_.state, request_.slots, &state));
    TF_RETURN_IF_ERROR(Allocate(&outputs_));
    const PlanColumn column = {&layout::Part::slots, request_.table->LowestAnswer(), request_.table->sizes().device_rows};
    TF_RETURN_IF_ERROR(ToStatus(CopyPlan(table_name, part(), column, outputs_)));
    return reading_ == nullptr || IsClosed()
               ? Status::OK() : reading_->CopyHomes(part(), outputs_.slots);
  }

  bool asked_ = false;
  PlanOutputs outputs_;
  std::unique_ptr<RowReading> reading_;  // of a table with rows on disk
};

// Evaluation of a checkpoint: DEDUPED -> DONE by CAS.  Needs neither the worker nor the lease, so training goes on.
class FixedWait : public BatchWait {
 public:
  using BatchWait::BatchWait;

  bool Poll(CoreStatus* status) override {
    const ClaimVerdict verdict = DecideRead(ReadWords());
    *status = verdict.error;
    waits_for = verdict.waits_for;
    return verdict.kind != ClaimVerdict::kWait;
  }

 protected:
  void Proceed() override {
    PlanOutputs outputs;
    std::vector<StateRows> state;
    // The lookup op needs an initialised variable, although it reads the checkpoint's rows.
    Status status = request_.table->Attach(ctx(), request_.state, request_.slots, &state);
    if (status.ok()) status = Allocate(&outputs);
    if (status.ok()) {
      request_.rows->Resolve(part().array<std::int64_t>(&layout::Part::unique), outputs.slots.count,
                             outputs.slots.data);
      status = ToStatus(CopyRestore(table_name, part(), outputs.slots.count, outputs));
    }
    // SYNC plan-done: store
    if (status.ok() && (IsClosed() || !CompareExchange(word(), static_cast<std::uint32_t>(layout::kDeduped),
                                                       static_cast<std::uint32_t>(layout::kDone)))) {
      status = Refuse(Code::kFailedPrecondition, "ticket ", SequenceOf(ticket), " of table '", table_name,
                      "' was closed or read by another step, or the pipeline was stopped. A batch is fetched and used "
                      "in one run call");
    }
    step().Claimed(std::move(request_.ticket));
    End(status);
  }
};

}  // namespace

std::shared_ptr<PlanWait> MakePlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                                       OpKernelContext* ctx, Ended ended) {
  if (request.stream->training()) {
    return std::make_shared<ClaimWait>(std::move(pipeline), step, std::move(request), ctx, std::move(ended));
  }
  if (request.rows != nullptr) {
    return std::make_shared<FixedWait>(std::move(pipeline), step, std::move(request), ctx, std::move(ended));
  }
  return std::make_shared<ReadWait>(std::move(pipeline), step, std::move(request), ctx, std::move(ended));
}

void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request, OpKernelContext* ctx,
                   tensorflow::AsyncOpKernel::DoneCallback done) {
  std::make_shared<TurnWait>(std::move(pipeline), step, std::move(request), ctx, EndsOp(ctx, std::move(done)))->Begin();
}

}  // namespace ascpipe
