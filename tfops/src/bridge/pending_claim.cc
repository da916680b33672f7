#include "bridge/pending_claim.h"

#include <utility>

namespace ascpipe {

PendingClaim::PendingClaim(const RingView& ring, int index, std::int64_t frame, const Ticket* ticket,
                           std::unique_ptr<PlanMoves> moves)
    : ring_(ring), index_(index), frame_(frame), ticket_(ticket), moves_(std::move(moves)) {}

void PendingClaim::Commit() const {
  CountTrained(ring_, frame_);
  FinishClaim(ring_, index_, frame_, ticket_->number());
}

void PendingClaim::TakeBack() const {
  moves_->TakeBack();
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

tensorflow::Status PendingClaim::CarryOutAgain(tensorflow::OpKernelContext* ctx) const {
  return moves_->CarryOut(ctx, frame_, ticket_->number());
}

}  // namespace ascpipe
