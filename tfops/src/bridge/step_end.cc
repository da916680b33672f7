#include "bridge/step_end.h"

#include <algorithm>
#include <atomic>

#include "bridge/status.h"
#include "core/fork.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {
std::atomic<Lease::Step> next_step{1};
}  // namespace

Lease::Step NextStep() { return next_step.fetch_add(1); }

StepEnd::StepEnd(std::shared_ptr<Pipeline> pipeline) : id_(NextStep()), pipeline_(std::move(pipeline)) {
  if (pipeline_->ranks() != nullptr) ++pipeline_->ranks()->steps();
}

StepEnd::~StepEnd() {
  if (InForkedChild()) return;
  for (const PendingClaim& claim : pending_) {
    if (!aside_) claim.TakeBack();
  }
  for (TicketHold& hold : claimed_) hold->Close();
  claimed_.clear();
  for (Table* table : handled_) table->EndHandles();
  pipeline_->lease().Release(id_);
  pipeline_->waiter().Wake();
  if (owes_) pipeline_->ranks()->SayFailed(owed_, "its step failed or was given up");
  if (pipeline_->ranks() != nullptr) --pipeline_->ranks()->steps();
}

Status StepEnd::Of(OpKernelContext* ctx, const std::shared_ptr<Pipeline>& pipeline, StepEnd** step) {
  if (ctx->step_container() == nullptr) {
    return Refuse(Code::kInternal, "ascpipe ops need a session: this run has no step container");
  }
  return LookupOrCreateInStep<StepEnd>(ctx, "ascpipe_step", step, [&pipeline](StepEnd** made) {
    *made = new StepEnd(pipeline);
    return OkStatus();
  });
}

Status StepEnd::Uses(const Stream& stream, const Table& table, std::int64_t ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto added = tickets_.insert({{stream.number(), table.number()}, ticket});
  if (added.second || added.first->second == ticket) return OkStatus();
  return Refuse(Code::kInvalidArgument, "table '", table.name(), "' gets tickets ", SequenceOf(added.first->second),
                " and ", SequenceOf(ticket), " in one step: a step trains one batch; fetch one iterator once");
}

void StepEnd::Reads(const std::int32_t* slots, std::shared_ptr<const StepRows> rows) {
  std::lock_guard<std::mutex> lock(mutex_);
  rows_[slots] = std::move(rows);
}

std::shared_ptr<const StepRows> StepEnd::RowsOf(const std::int32_t* slots) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = rows_.find(slots);
  return found == rows_.end() ? nullptr : found->second;
}

void StepEnd::Claimed(TicketHold hold) {
  std::lock_guard<std::mutex> lock(mutex_);
  claimed_.push_back(std::move(hold));
}

void StepEnd::BeginHandles(Table* table, std::int64_t ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  handled_.push_back(table);
  table->BeginHandles(ticket);
}

void StepEnd::Owes(const PeerHeader& header) {
  std::lock_guard<std::mutex> lock(mutex_);
  owes_ = true;
  owed_ = header;
}

void StepEnd::OwesNothing() {
  std::lock_guard<std::mutex> lock(mutex_);
  owes_ = false;
}

void StepEnd::Pends(PendingClaim claim) {
  std::lock_guard<std::mutex> lock(mutex_);
  pending_.push_back(std::move(claim));
}

void StepEnd::Commit() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const PendingClaim& claim : pending_) claim.Commit();
  pending_.clear();
}

void StepEnd::PutAside() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const PendingClaim& claim : pending_) claim.TakeBack();
  aside_ = true;
  pipeline_->lease().Release(id_);
  pipeline_->waiter().Wake();
}

void StepEnd::Pends(PendingRead read) {
  std::lock_guard<std::mutex> lock(mutex_);
  reads_.push_back(read);
}

void StepEnd::HasRead() {
  std::lock_guard<std::mutex> lock(mutex_);
  reads_.clear();
}

const PendingRead* StepEnd::ReadOf(int table) const {
  for (const PendingRead& read : reads_) {
    if (read.table().number() == table) return &read;
  }
  return nullptr;
}

bool StepEnd::MayPutReadsAside() const {
  if (pipeline_->lease().HoldsExclusive(id_)) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  const int stream = tickets_.begin()->first.first;
  return std::all_of(
      tickets_.begin(), tickets_.end(),
      [stream](const std::pair<const std::pair<int, int>, std::int64_t>& used) { return used.first.first == stream; });
}

void StepEnd::PutReadsAside() {
  pipeline_->lease().Release(id_);
  pipeline_->waiter().Wake();
}

const Table* StepEnd::PendingTable(int number) const {
  for (const PendingClaim& claim : pending_) {
    if (claim.table().number() == number) return &claim.table();
  }
  return nullptr;
}

void StepEnd::HasClaimedAgain(bool has) {
  std::lock_guard<std::mutex> lock(mutex_);
  aside_ = !has;
}

}  // namespace ascpipe
