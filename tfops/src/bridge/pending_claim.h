// A claim of several ranks, from the moves of its rows to the verdict over the exchange of rows.
#ifndef ASCPIPE_BRIDGE_PENDING_CLAIM_H_
#define ASCPIPE_BRIDGE_PENDING_CLAIM_H_

#include <cstdint>
#include <memory>

#include "bridge/plan_moves.h"
#include "core/atomics.h"
#include "core/part_view.h"
#include "core/ticket.h"

namespace ascpipe {

// Stores that a claimed plan of a table is carried out.  Its worker is to be rung.
inline void FinishClaim(const PartView& part, std::int64_t ticket) {
  StoreRelease(&part.ring().table(part.index())->finished, ticket);
  Exchange(part.word(), static_cast<std::uint32_t>(layout::kDone));  // SYNC plan-done: store
}

// Every table counts a batch that one of them trains: after its claim, never before.
inline void CountTrained(const RingView& ring, std::int64_t frame) {
  if (Exchange(&ring.frame(frame)->trained, 1u) == 0) FetchAdd(&ring.header()->trained, std::int64_t{1});
}

// Changes no table until Commit, as other processes see it: the row that each key has is the same before and after.
class PendingClaim {
 public:
  PendingClaim(const PartView& part, const Ticket* ticket, std::unique_ptr<PlanMoves> moves);

  const PartView& part() const { return part_; }
  const Ticket& ticket() const { return *ticket_; }
  Table& table() const { return moves_->table(); }

  // The batch counts from now on.
  void Commit() const;
  // The batch was never there: rows that made room return to their slots, from home, where they are still the same.
  void TakeBack() const;
  // The same where no row was moved yet.
  void TakeBackUnmoved() const;
  // Claims the plan anew; false: the worker has just revoked it.
  bool TryAgain() const;
  // Carries the plan out again, which may be another one of the same batch: tables have changed since.
  tensorflow::Status CarryOutAgain(tensorflow::OpKernelContext* ctx) const;

 private:
  PartView part_;
  const Ticket* ticket_;  // held by the step
  std::unique_ptr<PlanMoves> moves_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PENDING_CLAIM_H_
