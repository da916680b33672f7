#include "core/claim.h"

#include "core/atomics.h"
#include "core/error_codes.gen.h"
#include "core/part_view.h"

namespace ascpipe {

namespace {

// Executes the checks that training and evaluation have in common. Returns true if *verdict is final.
bool DecideTicket(const ClaimWords& words, ClaimVerdict* verdict) {
  if (words.state == Ticket::kClosed) {
    *verdict = ClaimVerdict::Refuse(
        Error(Code::kFailedPrecondition, "ticket ", SequenceOf(words.ticket), " of table '", words.table,
              "' was closed before it was used: its batch was trained, skipped or dropped. A batch is fetched and "
              "trained in one run call; do not feed a fetched batch back through a placeholder"));
    return true;
  }
  if (words.state == Ticket::kFailed) {
    *verdict = ClaimVerdict::Refuse(Error(kE323, "batch ", SequenceOf(words.ticket), " ", words.why));
    return true;
  }
  if (words.state == Ticket::kParked) {
    *verdict = ClaimVerdict::Wait(layout::kWaitRoom, false);
    return true;
  }
  return false;
}

// Returns the error of a ticket that the worker could not plan. The failed plan has not changed the table.
CoreStatus NoPlan(const ClaimWords& words) {
  const char* const unchanged = ". Nothing was lost: this table did not take the batch and is as after the last step";
  const std::int64_t ticket = SequenceOf(words.ticket);
  const bool is_expansion = words.device_rows == 0;
  switch (words.status) {
    case layout::kPlanTableFull:
      return Error(kE320, "table '", words.table, "' needs ", words.need, " device rows for batch ", ticket,
                   ", but has ", words.device_rows, ". Raise device_vocabulary_size of the table to ", words.need,
                   " or more", unchanged);
    case layout::kPlanDeviceSmall:
      return Error(kE320, "table '", words.table, "': batch ", ticket, " has ", words.need,
                   " distinct ids that need a row on the device at once, but there are ", words.device_rows,
                   " device rows. Raise device_vocabulary_size of the table to ", words.need,
                   " or more, or use a smaller batch", unchanged);
    case layout::kPlanHostFull:
      if (is_expansion) {
        return Error(kE320, "table '", words.table, "' needs ", words.need, " rows for batch ", ticket,
                     ", but has grown to its limit of ", words.home_rows,
                     " rows, which is what the memory of "
                     "the machine or container can hold. Let feature eviction or a higher access_threshold keep rare "
                     "ids out, or start again with more memory",
                     unchanged);
      }
      if (words.disk_rows > 0) {
        return Error(kE320, "table '", words.table, "' needs ", words.need, " rows for batch ", ticket, ", but has ",
                     words.disk_rows,
                     " (host_vocabulary_size and ssd_vocabulary_size together). "
                     "Raise ssd_vocabulary_size of the table by ",
                     words.need - words.disk_rows,
                     " or more, or let feature eviction or a higher access_threshold keep rare ids out", unchanged);
      }
      return Error(kE320, "table '", words.table, "' needs ", words.need, " host rows for batch ", ticket, ", but has ",
                   words.home_rows, ". Raise host_vocabulary_size of the table to ", words.need,
                   " or more, or let feature eviction or a higher access_threshold keep rare ids out", unchanged);
    case layout::kPlanHostSmall:
      return Error(kE320, "table '", words.table, "': the rows of batch ", ticket,
                   " and those of "
                   "the device need up to ",
                   words.need, " rows of the host, but there are ", words.home_rows,
                   " (host_vocabulary_size and device_vocabulary_size together). Raise host_vocabulary_size, or use a "
                   "smaller batch",
                   unchanged);
    case layout::kPlanNoMemory:
      if (is_expansion) {
        return Error(kE321, "table '", words.table, "': the machine has no shared memory left for ", words.need,
                     " entries or rows, which batch ", ticket,
                     " needs. Give the machine or container "
                     "more memory, /dev/shm included, or let feature eviction or a higher access_threshold keep rare "
                     "ids out",
                     unchanged);
      }
      return Error(kE321, "table '", words.table, "': the machine has no shared memory left for ", words.need,
                   " entries or host rows, which batch ", ticket, " needs (host_vocabulary_size allows ",
                   words.home_rows,
                   "). Give the machine or container more memory, /dev/shm included, or lower "
                   "host_vocabulary_size",
                   unchanged);
    default:
      return Error(kE301, "table '", words.table, "': the record of ticket ", ticket, " has the unknown status ",
                   words.status, ". It is damaged and no row was moved; restart the program");
  }
}

// Returns true if the ticket of a frame before `number` may still be trained for table `table_index`.
bool EarlierIsOpen(const RingView& ring, int table_index, std::int64_t number) {
  for (std::int64_t earlier = ring.head(); earlier < number; ++earlier) {
    const bool open = LoadAcquire(&ring.frame(earlier)->closed) == 0 &&  // SYNC ticket-closed: load
                      LoadAcquire(ring.word(table_index, earlier)) < layout::kDone;
    // Check the frame again, because the frame may have been freed and reused after the read of `closed`.
    if (open && ring.head() <= earlier) return true;
  }
  return false;
}

}  // namespace

ClaimVerdict DecideClaim(const ClaimWords& words) {
  ClaimVerdict verdict = ClaimVerdict::Ready();
  // Check `finished` before the state, because the ticket of a batch that was trained out of order may also be closed.
  if (words.ticket <= words.finished) {
    return ClaimVerdict::Refuse(
        Error(kE322, "table '", words.table, "' has finished ticket ", SequenceOf(words.finished),
              " and cannot go back to ticket ", SequenceOf(words.ticket),
              ": batches reached the training step in another order than they were submitted, or one batch twice. "
              "Make map(insert_fn) sequential (no num_parallel_calls) and the last stage before prefetch"));
  }
  if (DecideTicket(words, &verdict)) return verdict;
  if (words.word == layout::kClaimed) {
    return ClaimVerdict::Refuse(Error(kE322, "ticket ", SequenceOf(words.ticket), " is being trained by table '",
                                      words.table, "' already: one plan of a table per step"));
  }
  const bool planned = words.word == layout::kPlanned && words.base == words.finished;
  if (words.earlier_open) return ClaimVerdict::Wait(layout::kWaitStep, !planned);
  if (words.word == layout::kSubmitted) return ClaimVerdict::Wait(layout::kWaitKeys, true);
  if (!planned) return ClaimVerdict::Wait(words.awaits_rows ? layout::kWaitDisk : layout::kWaitPlan, true);
  if (words.status != layout::kPlanOk) return ClaimVerdict::Refuse(NoPlan(words));
  return verdict;
}

ClaimVerdict DecideRead(const ClaimWords& words) {
  ClaimVerdict verdict = ClaimVerdict::Ready();
  if (DecideTicket(words, &verdict)) return verdict;
  switch (words.word) {
    case layout::kDeduped:
    case layout::kAnswered:
      return verdict;
    case layout::kSubmitted:
      return ClaimVerdict::Wait(layout::kWaitKeys, false);
    case layout::kAsked:
      return ClaimVerdict::Wait(layout::kWaitRead, false);
    default:
      return ClaimVerdict::Refuse(Error(kE322, "ticket ", SequenceOf(words.ticket), " was read by table '", words.table,
                                        "' already: a batch is fetched and used in one run call"));
  }
}

void ReadClaimWords(const RingView& ring, int table_index, const Ticket& ticket, ClaimWords* words) {
  const layout::RingTable* table = ring.table(table_index);
  words->ticket = ticket.number();
  words->finished = LoadAcquire(&table->finished);
  words->state = ticket.state();
  if (words->state == Ticket::kFailed) words->why = ticket.why();
  if (words->state < 0) return;
  const std::int64_t number = words->state;
  words->word = LoadAcquire(ring.word(table_index, number));  // SYNC deduplicated, plan, keys-answered: load
  words->earlier_open = EarlierIsOpen(ring, table_index, number);
  if (words->word != layout::kPlanned) return;
  // The worker may now revoke the plan and make a new plan. The CAS from PLANNED to CLAIMED then fails, or claims the
  // new plan if both plans have the same base. All fields except base, status and need are read after the CAS.
  const layout::Part& part = PartView(ring, ticket.record(), table_index).shared();
  words->base = LoadAcquire(&part.base);
  words->status = LoadAcquire(&part.status);
  words->need = LoadAcquire(&part.need);
}

bool ReadersMayRead(const RingView& ring, int table_index) {
  const std::int64_t tail = ring.tail();  // SYNC frame-published: load
  for (std::int64_t number = ring.head(); number < tail; ++number) {
    // `closed` is read before `trained`. If the ticket is closed, `trained` is final, because no step claims a closed
    // ticket.
    const bool closed = LoadAcquire(&ring.frame(number)->closed) != 0;
    const std::uint32_t word = LoadAcquire(ring.word(table_index, number));  // SYNC retired: load
    const bool trained = LoadAcquire(&ring.frame(number)->trained) != 0;
    if (ring.head() > number) continue;
    if (word == layout::kClaimed || word == layout::kDone) return false;
    if (word < layout::kClaimed && closed && trained) return false;
  }
  return true;
}

}  // namespace ascpipe
