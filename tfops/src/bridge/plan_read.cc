// Policies of waits in evaluations. An evaluation reads rows and changes no table.
#include <memory>
#include <utility>
#include <vector>

#include "bridge/pending_read.h"
#include "bridge/plan_wait.h"
#include "bridge/row_reading.h"
#include "bridge/status.h"
#include "core/atomics.h"
#include "core/fixed_rows.h"
#include "core/row_moves.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {

std::unique_ptr<RowReading> ReadingOf(Table* table) {
  return std::unique_ptr<RowReading>(table->is_on_disk() ? new RowReading(table) : nullptr);
}

// Policy of an evaluation for one table. The policy changes the part's word from DEDUPED to ASKED by CAS, waits for the
// worker's answer, and changes the word to DONE.
class ReadPolicy : public PlanPolicy {
 public:
  explicit ReadPolicy(PlanRequest request) : batch_(std::move(request)), reading_(ReadingOf(batch_.table())) {}

  bool Poll(PlanWait* wait, CoreStatus* status) override {
    const ClaimWords words = batch_.ReadWords(wait);
    const ClaimVerdict::Kind kind = wait->Follow(DecideRead(words), status);
    if (kind != ClaimVerdict::kReady) return kind == ClaimVerdict::kError;
    if (words.word == layout::kAnswered) {
      if (reading_ != nullptr && asked_) {
        wait->waits_for = layout::kWaitDisk;
        return reading_->MayCopy();
      }
      if (!asked_) {
        *status = Error(Code::kInvalidArgument, "ticket ", SequenceOf(wait->ticket), " is being read by table '",
                        wait->table_name, "' already: one plan of a table per step");
      }
      return true;
    }
    if (!wait->TryShare()) return false;
    wait->waits_for = layout::kWaitRead;
    if (reading_ != nullptr) reading_->Begin();
    asked_ = CompareExchange(batch_.word(), static_cast<std::uint32_t>(layout::kDeduped),
                             static_cast<std::uint32_t>(layout::kAsked));  // SYNC keys-asked: store
    wait->pipeline().RingTableWorker(batch_.ring(), batch_.index());
    return false;
  }

  bool Proceed(PlanWait* wait, Status* status) override {
    PlanRequest& request = batch_.request();
    *status = Read(wait->ctx());
    if (batch_.IsClosed()) {  // even after a failure, because the frame may contain another batch
      *status = ClosedWhileRead(wait->table_name, wait->ticket);
    }
    if (status->ok() && reading_ != nullptr && reading_->Ask(&wait->pipeline())) return false;
    if (status->ok()) {
      if (reading_ != nullptr) wait->step().Reads(outputs_.slots.data, reading_->End());
      Exchange(batch_.word(), static_cast<std::uint32_t>(layout::kDone));  // SYNC plan-done: store
      if (request.pends) wait->step().Pends({batch_.part(), request.ticket.get(), request.table, outputs_.slots});
    }
    wait->step().Claimed(std::move(request.ticket));
    return true;
  }

 private:
  // Copies the worker's answer to the outputs, or copies rows that the disk worker has read.
  Status Read(OpKernelContext* ctx) {
    if (reading_ != nullptr && reading_->is_copying()) return reading_->CopyAsked();
    const Table& table = *batch_.table();
    std::vector<StateRows> state;
    TF_RETURN_IF_ERROR(batch_.Attach(ctx, &state));
    TF_RETURN_IF_ERROR(batch_.Allocate(ctx, &outputs_));
    const PlanColumn column = {&layout::Part::slots, table.LowestAnswer(), table.sizes().device_rows};
    TF_RETURN_IF_ERROR(ToStatus(CopyPlan(table.name(), batch_.part(), column, outputs_)));
    return reading_ == nullptr || batch_.IsClosed() ? OkStatus() : reading_->CopyHomes(batch_.part(), outputs_.slots);
  }

  PlanBatch batch_;
  bool asked_ = false;
  PlanOutputs outputs_;
  const std::unique_ptr<RowReading> reading_;  // null unless the table has rows on disk
};

// Policy of an evaluation that reads rows of a checkpoint. The policy changes the part's word from DEDUPED to DONE by
// CAS. Training continues, because the policy needs neither the worker nor the lease.
class FixedPolicy : public PlanPolicy {
 public:
  explicit FixedPolicy(PlanRequest request) : batch_(std::move(request)) {}

  bool Poll(PlanWait* wait, CoreStatus* status) override {
    return wait->Follow(DecideRead(batch_.ReadWords(wait)), status) != ClaimVerdict::kWait;
  }

  bool Proceed(PlanWait* wait, Status* status) override {
    PlanOutputs outputs;
    std::vector<StateRows> state;
    // The lookup op needs an initialized variable, although it reads the checkpoint's rows.
    *status = batch_.Attach(wait->ctx(), &state);
    if (status->ok()) *status = batch_.Allocate(wait->ctx(), &outputs);
    if (status->ok()) {
      batch_.request().rows->Resolve(batch_.part().array<std::int64_t>(&layout::Part::unique), outputs.slots.count,
                                     outputs.slots.data);
      *status = ToStatus(CopyRestore(wait->table_name, batch_.part(), outputs.slots.count, outputs));
    }
    // SYNC plan-done: store
    if (status->ok() &&
        (batch_.IsClosed() || !CompareExchange(batch_.word(), static_cast<std::uint32_t>(layout::kDeduped),
                                               static_cast<std::uint32_t>(layout::kDone)))) {
      *status = Refuse(Code::kFailedPrecondition, "ticket ", SequenceOf(wait->ticket), " of table '", wait->table_name,
                       "' was closed or read by another step, or the pipeline was stopped. A batch is fetched and used "
                       "in one run call");
    }
    wait->step().Claimed(std::move(batch_.request().ticket));
    return true;
  }

 private:
  PlanBatch batch_;
};

// Policy of an evaluation whose reads are invalid, because StepEnd::PutReadsAside has released the lease. Used only
// with several ranks. The policy changes the words of all tables from DONE to ASKED, and then proceeds like ReadPolicy.
class ReadAgainPolicy : public PlanPolicy {
 public:
  explicit ReadAgainPolicy(int stream) : stream_(stream) {}

  bool Poll(PlanWait* wait, CoreStatus* status) override {
    const std::vector<PendingRead>& reads = wait->step().reads();
    if (!asked_) {
      if (!wait->MayClaim(stream_)) return false;
      if (!reads.empty() && !wait->TryShare()) return false;
      AskAgain(wait);
    }
    for (std::size_t i = next_; i < reads.size(); ++i) {
      const PendingRead& read = reads[i];
      wait->ticket = read.ticket().number();
      wait->table_name = read.table().name();
      if (read.IsClosed()) {
        const Status closed = ClosedWhileRead(wait->table_name, wait->ticket);
        *status = CoreStatus(static_cast<Code>(closed.code()), MessageOf(closed));
        return true;
      }
      wait->waits_for = layout::kWaitRead;
      if (!read.IsAnswered()) return false;
    }
    wait->waits_for = layout::kWaitDisk;
    return next_ == reads.size() || readings_[next_] == nullptr || readings_[next_]->MayCopy();
  }

  // Processes one table at a time, so that the waiting step owns the read buffer of at most one table.
  bool Proceed(PlanWait* wait, Status* status) override {
    const std::vector<PendingRead>& reads = wait->step().reads();
    for (; next_ < reads.size(); ++next_) {
      const PendingRead& read = reads[next_];
      RowReading* const reading = readings_[next_].get();
      if (reading != nullptr && !reading->is_copying() && !reading->MayCopy()) return false;
      const bool goes_on = reading != nullptr && reading->is_copying();
      *status = goes_on ? reading->CopyAsked() : read.CopyAgain(reading);
      if (!status->ok()) return true;
      if (reading != nullptr && reading->Ask(&wait->pipeline())) return false;
      if (reading != nullptr) wait->step().Reads(read.slots(), reading->End());
      read.Finish();
    }
    return true;
  }

 private:
  // Announces the epochs of all reads, and then requests the slots again from the table workers.
  void AskAgain(PlanWait* wait) {
    for (const PendingRead& read : wait->step().reads()) {
      readings_.push_back(ReadingOf(&read.table()));
      if (readings_.back() != nullptr) readings_.back()->Begin();
    }
    for (const PendingRead& read : wait->step().reads()) {
      read.AskAgain();
      wait->pipeline().RingTableWorker(read.part().ring(), read.part().index());
    }
    asked_ = true;
  }

  const int stream_;
  bool asked_ = false;
  std::size_t next_ = 0;                               // index of the next read to copy
  std::vector<std::unique_ptr<RowReading>> readings_;  // by index of the read; null: no row of the table is on disk
};

}  // namespace

std::unique_ptr<PlanPolicy> ReadsPlan(PlanRequest request) {
  return std::unique_ptr<PlanPolicy>(new ReadPolicy(std::move(request)));
}

std::unique_ptr<PlanPolicy> ReadsFixedRows(PlanRequest request) {
  return std::unique_ptr<PlanPolicy>(new FixedPolicy(std::move(request)));
}

void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended, int stream) {
  std::make_shared<PlanWait>(std::move(pipeline), step, ctx, std::move(ended),
                             std::unique_ptr<PlanPolicy>(new ReadAgainPolicy(stream)))
      ->Begin();
}

}  // namespace ascpipe
