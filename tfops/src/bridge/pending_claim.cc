#include "bridge/pending_claim.h"

#include <utility>

namespace ascpipe {

namespace {

std::uint64_t Mix(std::uint64_t hash, const std::int32_t* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) hash = (hash ^ static_cast<std::uint32_t>(values[i])) * 1099511628211u;
  return hash;
}

}  // namespace

PendingClaim::PendingClaim(const RingView& ring, int index, std::int64_t frame, const Ticket* ticket,
                           std::unique_ptr<Moving> moving)
    : ring_(ring), index_(index), frame_(frame), ticket_(ticket), moving_(std::move(moving)), digest_(Digest()) {}

void PendingClaim::Commit() const {
  CountTrained(ring_, frame_);
  FinishClaim(ring_, index_, frame_, ticket_->number());
}

void PendingClaim::TakeBack() const {
  moving_->moves.Back(0, moving_->moves.outs());
  TakeBackUnmoved();
}

void PendingClaim::TakeBackUnmoved() const {
  CompareExchange(ring_.word(index_, frame_), static_cast<std::uint32_t>(layout::kClaimed),
                  static_cast<std::uint32_t>(layout::kPlanned));  // SYNC plan: store
}

bool PendingClaim::TryAgain() const {
  return CompareExchange(ring_.word(index_, frame_), static_cast<std::uint32_t>(layout::kPlanned),  // SYNC plan: load
                         static_cast<std::uint32_t>(layout::kClaimed));  // SYNC plan-claimed: store
}

CoreStatus PendingClaim::MoveAgain() {
  const layout::Part* const part = ring_.part(frame_, index_);
  const PlanOutputs::Array slots = {ring_.array<std::int32_t>(frame_, part->slots), part->unique_count};
  const CoreStatus status = moving_->moves.Read(ring_, frame_, index_, moving_->table, slots);
  if (!status.ok()) return status;
  moving_->moves.Out(0, moving_->moves.outs());
  moving_->moves.In(0, moving_->moves.ins());
  return status;
}

// Where each key's row is, and what moves.
std::uint64_t PendingClaim::Digest() const {
  const layout::Part* const part = ring_.part(frame_, index_);
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a, by words
  hash = Mix(hash, ring_.array<std::int32_t>(frame_, part->slots), part->unique_count);
  hash = Mix(hash, ring_.array<std::int32_t>(frame_, part->homes), part->unique_count);
  hash = Mix(hash, ring_.array<std::int32_t>(frame_, part->move_in), part->fresh_count + part->load_count);
  hash = Mix(hash, ring_.array<std::int32_t>(frame_, part->out_slots), part->out_count);
  return Mix(hash, ring_.array<std::int32_t>(frame_, part->out_homes), part->out_count);
}

}  // namespace ascpipe
