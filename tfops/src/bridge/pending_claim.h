// A claim of several ranks, from the moves of its rows to the verdict over the exchange of rows.
#ifndef ASCPIPE_BRIDGE_PENDING_CLAIM_H_
#define ASCPIPE_BRIDGE_PENDING_CLAIM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/atomics.h"
#include "core/ring.h"
#include "core/row_moves.h"

namespace ascpipe {

// The rows that a claim moves, and where.
struct Moving {
  std::vector<StateRows> state;
  MovedTable table;  // its `state` is the one above
  RowMoves moves;
};

// Stores that a claimed plan of a table is carried out.  Its worker is to be rung.
inline void FinishClaim(const RingView& ring, int index, std::int64_t frame, std::int64_t ticket) {
  StoreRelease(&ring.table(index)->finished, ticket);
  Exchange(ring.word(index, frame), static_cast<std::uint32_t>(layout::kDone));  // SYNC plan-done: store
}

// Every table counts a batch that one of them trains: after its claim, never before.
inline void CountTrained(const RingView& ring, std::int64_t frame) {
  if (Exchange(&ring.frame(frame)->trained, 1u) == 0) FetchAdd(&ring.header()->trained, std::int64_t{1});
}

struct PendingClaim {
  RingView ring;
  int index;  // of the table in the ring
  std::int64_t frame;
  std::int64_t ticket;
  std::unique_ptr<Moving> moving;

  // The batch counts from now on.
  void Commit() const {
    CountTrained(ring, frame);
    FinishClaim(ring, index, frame, ticket);
  }

  // The batch was never there: rows that made room return to their slots, from home, where they are still the same.
  void TakeBack() const {
    moving->moves.Back(0, moving->moves.outs());
    CompareExchange(ring.word(index, frame), static_cast<std::uint32_t>(layout::kClaimed),
                    static_cast<std::uint32_t>(layout::kPlanned));
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PENDING_CLAIM_H_
