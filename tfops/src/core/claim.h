// May this step claim this ticket for this table now?  Decisions only: words in, verdict out.
#ifndef ASCPIPE_CORE_CLAIM_H_
#define ASCPIPE_CORE_CLAIM_H_

#include <cstdint>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"
#include "core/ring.h"
#include "core/ticket.h"

namespace ascpipe {

// The words that decide a claim.
struct ClaimWords {
  std::string table;  // name, for texts
  std::int64_t ticket = 0;
  std::int64_t state = 0;     // of the ticket: Ticket::kParked, kClosed, kFailed, or a frame number
  std::string why;            // of a ticket that failed: what follows "the batch of ticket 5"
  std::uint32_t word = 0;     // of (frame, table)
  std::int64_t finished = 0;  // last ticket that the table finished
  std::int64_t base = 0;      // of the plan, if there is one; so are the next two
  std::int64_t status = layout::kPlanOk;
  std::int64_t need = 0;
  std::int64_t device_rows = 0;  // 0: an expansion table
  std::int64_t home_rows = 0;    // at most
  std::int64_t disk_rows = 0;    // at most, at home and on disk together; 0: none go to disk
  bool earlier_open = false;     // an earlier ticket may still be trained
  bool awaits_rows = false;      // its plan waits for rows from disk
};

struct ClaimVerdict {
  enum Kind { kWait, kError, kReady };
  Kind kind;
  layout::WaitsFor waits_for;  // of kWait
  bool wants;                  // kWait: tell the table worker which ticket is wanted
  CoreStatus error;            // of kError

  static ClaimVerdict Wait(layout::WaitsFor reason, bool wants) { return {kWait, reason, wants, CoreStatus()}; }
  static ClaimVerdict Refuse(CoreStatus error) { return {kError, layout::kWaitNone, false, std::move(error)}; }
  static ClaimVerdict Ready() { return {kReady, layout::kWaitNone, false, CoreStatus()}; }
};

// Training: ready means that the plan is based on the last ticket the table finished and that no earlier ticket is
// open. What remains is the lease and the CAS from PLANNED to CLAIMED.
ClaimVerdict DecideClaim(const ClaimWords& words);

// Evaluation: ready means that the keys may be asked for (DEDUPED), or that they are answered (ANSWERED).
ClaimVerdict DecideRead(const ClaimWords& words);

// Reads the words of `table_index` for a ticket; `base`, `status` and `need` only of a plan.
void ReadClaimWords(const RingView& ring, int table_index, const Ticket& ticket, ClaimWords* words);

// Whether the truth of a table is the state after its last finished step: every ticket that it claimed, and
// every closed one that was trained, is retired.
bool ReadersMayRead(const RingView& ring, int table_index);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CLAIM_H_
