// Decides whether a step may claim a ticket for a table now. A decision changes no state and depends only on the
// ClaimWords.
#ifndef ASCPIPE_CORE_CLAIM_H_
#define ASCPIPE_CORE_CLAIM_H_

#include <cstdint>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"
#include "core/ring.h"
#include "core/ticket.h"

namespace ascpipe {

// Input of a claim decision.
struct ClaimWords {
  std::string table;  // name, for error messages
  std::int64_t ticket = 0;
  std::int64_t state = 0;     // state of the ticket: Ticket::kParked, kClosed, kFailed, or a frame number
  std::string why;            // for a failed ticket: the text after "batch 5"
  std::uint32_t word = 0;     // state word of (frame, table)
  std::int64_t finished = 0;  // last ticket that the table finished
  std::int64_t base = 0;      // `base`, `status` and `need` are valid only if there is a plan
  std::int64_t status = layout::kPlanOk;
  std::int64_t need = 0;
  std::int64_t device_rows = 0;  // 0: an expansion table
  std::int64_t home_rows = 0;    // maximum
  std::int64_t disk_rows = 0;    // maximum number at home and on disk together; 0: no rows on disk
  bool earlier_open = false;     // an earlier ticket may still be trained
  bool awaits_rows = false;      // the plan waits for rows from disk
};

struct ClaimVerdict {
  enum Kind { kWait, kError, kReady };
  Kind kind;
  layout::WaitsFor waits_for;  // reason of kWait
  bool wants;                  // for kWait: publish the wanted ticket to the table worker
  CoreStatus error;            // error of kError

  static ClaimVerdict Wait(layout::WaitsFor reason, bool wants) { return {kWait, reason, wants, CoreStatus()}; }
  static ClaimVerdict Refuse(CoreStatus error) { return {kError, layout::kWaitNone, false, std::move(error)}; }
  static ClaimVerdict Ready() { return {kReady, layout::kWaitNone, false, CoreStatus()}; }
};

// Decides whether a training step may claim the ticket. "Ready" means that no earlier ticket is open, and that the plan
// is based on the last ticket that the table finished. A step that is ready still needs the lease and the CAS from
// PLANNED to CLAIMED.
ClaimVerdict DecideClaim(const ClaimWords& words);

// Decides whether an evaluation may read. "Ready" means that the step may request the keys (the word is DEDUPED), or
// that the table worker has answered (the word is ANSWERED).
ClaimVerdict DecideRead(const ClaimWords& words);

// Reads the ClaimWords of table `table_index` for a ticket.
void ReadClaimWords(const RingView& ring, int table_index, const Ticket& ticket, ClaimWords* words);

// Returns true if the rows and entries of a table are consistent: the table has retired every claimed ticket and every
// closed ticket that was trained.
bool ReadersMayRead(const RingView& ring, int table_index);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CLAIM_H_
