// Tickets of batches. AscSubmit creates a ticket. The ticket is closed when its batch was trained or can no longer be
// trained.
#ifndef ASCPIPE_CORE_TICKET_H_
#define ASCPIPE_CORE_TICKET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/frame_record.h"
#include "core/layout.h"
#include "core/ring.h"
#include "core/segment.h"

namespace ascpipe {

// Gives a ticket access to the ring and the bells while the ticket is being closed. All tickets of a stream share one
// gate. The ring is unmapped only when all tickets are closed and no thread is inside the gate, because a ticket tensor
// may outlive the ring.
class TicketGate {
 public:
  TicketGate(const RingView& ring, const SessionView& session) : ring_(ring), session_(session) {}

  void Enter() { inside_.fetch_add(1); }
  void Leave() { inside_.fetch_sub(1); }
  bool Empty() const { return inside_.load() == 0; }

  void Closed(std::int64_t state);
  // Wakes the sleeping table workers of the stream. Does not wake workers that pause.
  void RingTableWorkers() const;

 private:
  // Returns true if every table has finished the training frame, so that closing the ticket need not wake the table
  // workers. Returns false for frames of channels other than training.
  bool IsDone(std::int64_t frame) const;

  RingView ring_;
  SessionView session_;
  std::atomic<int> inside_{0};
};

// Control block of one ticket.
//
// The pump changes the state from kParked to a frame number (>= 0) or to kFailed. The state becomes kClosed when the
// last ticket hold is dropped, the step ends, or the pipeline stops.
class Ticket {
 public:
  static constexpr std::int64_t kParked = -1;
  static constexpr std::int64_t kClosed = -2;
  static constexpr std::int64_t kFailed = -3;

  // A new ticket has one ticket hold and one reference. The ticket tensor owns the hold and the reference, and releases
  // them with DropHold.
  Ticket(std::int64_t number, std::shared_ptr<TicketGate> gate) : number_(number), gate_(std::move(gate)) {}

  std::int64_t number() const { return number_; }
  std::int64_t state() const { return state_.load(); }

  // Acquires a ticket hold, which keeps the ticket open. For example, a claim that waits has a ticket hold. Returns
  // false if all holds of the ticket were dropped.
  bool TryHold();
  void DropHold();

  // Closes the ticket. Close is idempotent, and any thread may call it at any time.
  void Close();

  // The pump calls Enframe or Fail, which change the state from kParked to a frame number or to kFailed. Enframe and
  // Fail return false if the ticket is closed.
  bool Enframe(std::unique_ptr<const FrameRecord> record) {
    record_ = std::move(record);
    return Leave(record_->frame.number);
  }
  bool Fail(std::string why) {
    why_ = std::move(why);
    return Leave(kFailed);
  }
  const std::string& why() const { return why_; }         // reason; only for a failed ticket
  const FrameRecord& record() const { return *record_; }  // only for a ticket that has or had a frame

  void Ref() { references_.fetch_add(1); }
  void Unref() {
    if (references_.fetch_sub(1) == 1) delete this;
  }

 private:
  ~Ticket() = default;
  bool Leave(std::int64_t state) {
    std::int64_t parked = kParked;
    return state_.compare_exchange_strong(parked, state);
  }

  const std::int64_t number_;
  const std::shared_ptr<TicketGate> gate_;
  std::atomic<std::int64_t> state_{kParked};
  std::atomic<int> holders_{1};
  std::atomic<int> references_{1};
  std::string why_;                            // written before the state becomes kFailed
  std::unique_ptr<const FrameRecord> record_;  // written before the state becomes a frame
};

// RAII ticket hold.
class TicketHold {
 public:
  TicketHold() = default;
  explicit TicketHold(Ticket* held) : ticket_(held) {}  // takes ownership of one ticket hold
  TicketHold(TicketHold&& other) noexcept : ticket_(other.ticket_) { other.ticket_ = nullptr; }
  TicketHold& operator=(TicketHold&& other) noexcept {
    std::swap(ticket_, other.ticket_);
    return *this;
  }
  ~TicketHold() {
    if (ticket_ != nullptr) ticket_->DropHold();
  }
  Ticket* get() const { return ticket_; }
  Ticket* operator->() const { return ticket_; }
  // Transfers the ticket hold to the caller.
  Ticket* Release() {
    Ticket* const held = ticket_;
    ticket_ = nullptr;
    return held;
  }

 private:
  Ticket* ticket_ = nullptr;
};

// Combines a run (1 to kMostRuns) and a sequence number into a ticket number.
inline std::int64_t TicketNumber(std::int64_t run, std::int64_t sequence) {
  return run << layout::kSequenceBits | sequence;
}
inline std::int64_t RunOf(std::int64_t ticket) { return ticket >> layout::kSequenceBits; }
inline std::int64_t SequenceOf(std::int64_t ticket) { return ticket & layout::kSequenceMask; }

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_TICKET_H_
