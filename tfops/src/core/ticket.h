// The life of a ticket between AscSubmit and the end of the step that trained it.
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

// What closing a ticket touches: the ring and bells.  Shared by all tickets of a stream.  A ticket tensor may outlive
// the ring, so the ring is unmapped only when all tickets are closed and no thread is inside.
class TicketGate {
 public:
  TicketGate(const RingView& ring, const SessionView& session) : ring_(ring), session_(session) {}

  void Enter() { inside_.fetch_add(1); }
  void Leave() { inside_.fetch_sub(1); }
  bool Empty() const { return inside_.load() == 0; }

  void Closed(std::int64_t state);
  // Rings every table worker of the stream, unless it pauses.
  void RingTableWorkers() const;

 private:
  // Whether every table has claimed the frame and is done: that its ticket is closed is no news for a table worker
  // then.
  bool IsDone(std::int64_t frame) const;

  RingView ring_;
  SessionView session_;
  std::atomic<int> inside_{0};
};

// Control block of one ticket.
//
// State: kParked -> frame number (>= 0) or kFailed, by the pump; anything -> kClosed, by the first of:
// the last holder, the end of the step, the stop of the pipeline.
class Ticket {
 public:
  static constexpr std::int64_t kParked = -1;
  static constexpr std::int64_t kClosed = -2;
  static constexpr std::int64_t kFailed = -3;

  // Starts with one holder and one reference (the ticket tensor's, which go with DropHold).
  Ticket(std::int64_t number, std::shared_ptr<TicketGate> gate) : number_(number), gate_(std::move(gate)) {}

  std::int64_t number() const { return number_; }
  std::int64_t state() const { return state_.load(); }

  // A holder keeps the ticket from closing by itself, for instance while a claim of it waits although its tensor was
  // copied through Python.  False: it has no holder any more.
  bool TryHold();
  void DropHold();

  // Idempotent; safe at any time, from any thread.
  void Close();

  // For the pump: from kParked to a frame, or to kFailed.  False: it was closed before.
  bool Enframe(std::unique_ptr<const FrameRecord> record) {
    record_ = std::move(record);
    return Leave(record_->frame.number);
  }
  bool Fail(std::string why) {
    why_ = std::move(why);
    return Leave(kFailed);
  }
  const std::string& why() const { return why_; }         // of a failed ticket
  const FrameRecord& record() const { return *record_; }  // of one that has, or had, a frame

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
  std::string why_;                            // written before the state is kFailed
  std::unique_ptr<const FrameRecord> record_;  // before it is a frame
};

// One holder of a ticket, by scope.
class TicketHold {
 public:
  TicketHold() = default;
  explicit TicketHold(Ticket* held) : ticket_(held) {}  // takes over one hold
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
  // Hands the hold over to the caller.
  Ticket* Release() {
    Ticket* const held = ticket_;
    ticket_ = nullptr;
    return held;
  }

 private:
  Ticket* ticket_ = nullptr;
};

// Run (1 to kMostRuns) and sequence number in one ticket.
inline std::int64_t TicketNumber(std::int64_t run, std::int64_t sequence) {
  return run << layout::kSequenceBits | sequence;
}
inline std::int64_t RunOf(std::int64_t ticket) { return ticket >> layout::kSequenceBits; }
inline std::int64_t SequenceOf(std::int64_t ticket) { return ticket & layout::kSequenceMask; }

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_TICKET_H_
