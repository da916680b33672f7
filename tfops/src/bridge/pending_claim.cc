#include "bridge/pending_claim.h"

#include <utility>

namespace ascpipe {

PendingClaim::PendingClaim(Stream* stream, const PartView& part, const Ticket* ticket, std::unique_ptr<PlanMoves> moves)
    : stream_(stream), part_(part), ticket_(ticket), moves_(std::move(moves)) {}

void PendingClaim::Commit() const {
  stream_->CountTrained(ticket_->record());
  FinishClaim(part_, ticket_->number());
}

void PendingClaim::TakeBack() const {
  moves_->TakeBack();
  TakeBackUnmoved();
}

void PendingClaim::TakeBackUnmoved() const {
  CompareExchange(part_.word(), static_cast<std::uint32_t>(layout::kClaimed),
                  static_cast<std::uint32_t>(layout::kPlanned));  // SYNC plan: store
}

bool PendingClaim::TryAgain() const {
  return CompareExchange(part_.word(), static_cast<std::uint32_t>(layout::kPlanned),  // SYNC plan: load
                         static_cast<std::uint32_t>(layout::kClaimed));               // SYNC plan-claimed: store
}

tensorflow::Status PendingClaim::CarryOutAgain(tensorflow::OpKernelContext* ctx) const { return moves_->CarryOut(ctx); }

}  // namespace ascpipe
