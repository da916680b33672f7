// Claim of a step with several ranks, from the row moves until the verdict of the exchange.
#ifndef ASCPIPE_BRIDGE_PENDING_CLAIM_H_
#define ASCPIPE_BRIDGE_PENDING_CLAIM_H_

#include <cstdint>
#include <memory>

#include "bridge/plan_moves.h"
#include "core/atomics.h"
#include "core/part_view.h"
#include "core/stream.h"
#include "core/ticket.h"

namespace ascpipe {

// Marks a claimed plan as done. The caller must ring the table worker.
inline void FinishClaim(const PartView& part, std::int64_t ticket) {
  StoreRelease(&part.ring().table(part.index())->finished, ticket);
  Exchange(part.word(), static_cast<std::uint32_t>(layout::kDone));  // SYNC plan-done: store
}

// A claim whose rows were moved. Other processes do not see the moves before Commit, because the table worker records
// the moves in the entries of the keys only after Commit.
class PendingClaim {
 public:
  PendingClaim(Stream* stream, const PartView& part, const Ticket* ticket, std::unique_ptr<PlanMoves> moves);

  const PartView& part() const { return part_; }
  const Ticket& ticket() const { return *ticket_; }
  Table& table() const { return moves_->table(); }

  // Makes the claim final, so that the batch counts as trained.
  void Commit() const;
  // Reverts the claim. TakeBack copies swapped-out rows from the home rows back to the slots. The home rows have not
  // changed since CarryOut moved the rows.
  void TakeBack() const;
  // Reverts a claim whose rows were not moved yet.
  void TakeBackUnmoved() const;
  // Claims the plan again. Returns false if the worker has just revoked the plan.
  bool TryAgain() const;
  // Executes the plan again. The batch may have a new plan, because the tables may have changed.
  tensorflow::Status CarryOutAgain(tensorflow::OpKernelContext* ctx) const;

 private:
  Stream* stream_;
  PartView part_;
  const Ticket* ticket_;  // the step has a ticket hold
  std::unique_ptr<PlanMoves> moves_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PENDING_CLAIM_H_
