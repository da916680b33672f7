#include "core/ticket.h"

#include "core/atomics.h"
#include "core/bell.h"
#include "core/fork.h"

namespace ascpipe {

constexpr std::int64_t Ticket::kParked;
constexpr std::int64_t Ticket::kClosed;
constexpr std::int64_t Ticket::kFailed;

void TicketGate::Closed(std::int64_t state) {
  if (state >= 0) {
    Exchange(&ring_.frame(state)->closed, 1u);  // SYNC ticket-closed: store
    RingTableWorkers();
  }
  RingUnlessPausing(session_.bells + layout::kBellPump);
  Ring(session_.bells + layout::kBellTrainer);
}

void TicketGate::RingTableWorkers() const {
  for (int index = 0; index < ring_.tables(); ++index) {
    RingUnlessPausing(session_.TableWorkerBell(ring_.table(index)->worker));
  }
}

bool Ticket::TryHold() {
  int holders = holders_.load();
  while (holders > 0) {
    if (holders_.compare_exchange_weak(holders, holders + 1)) {
      Ref();
      return true;
    }
  }
  return false;
}

void Ticket::DropHold() {
  if (holders_.fetch_sub(1) == 1) Close();
  Unref();
}

void Ticket::Close() {
  if (InForkedChild()) return;  // the child has no mapping, and the ticket is the parent's
  gate_->Enter();  // before the exchange: the ring is unmapped when every ticket is closed and no thread is inside
  const std::int64_t before = state_.exchange(kClosed);
  if (before != kClosed) gate_->Closed(before);
  gate_->Leave();
}

}  // namespace ascpipe
