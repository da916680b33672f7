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
    if (ring_.opened().channel != layout::kLocal && !IsDone(state)) RingTableWorkers();
  }
  RingUnlessPausing(session_.bells + layout::kBellPump);
  Ring(session_.bells + layout::kBellTrainer);
}

bool TicketGate::IsDone(std::int64_t frame) const {
  if (ring_.opened().channel != layout::kTrain) return false;
  for (int index = 0; index < ring_.tables(); ++index) {
    if (LoadAcquire(ring_.word(index, frame)) < layout::kDone) return false;
  }
  return true;
}

void TicketGate::RingTableWorkers() const {
  // Rings the bell of each worker only once, because ringing it again before the worker runs would cost another system
  // call.
  std::uint32_t rung = 0;
  for (int index = 0; index < ring_.tables(); ++index) {
    const int worker = ring_.worker(index);
    const std::uint32_t bit = 1u << worker;
    if ((rung & bit) == 0) RingUnlessPausing(session_.TableWorkerBell(worker));
    rung |= bit;
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
  if (InForkedChild()) return;  // the child has no mapping, and the parent owns the ticket
  gate_->Enter();  // before the exchange: the ring is unmapped when every ticket is closed and no thread is inside
  const std::int64_t before = state_.exchange(kClosed);
  if (before != kClosed) gate_->Closed(before);
  gate_->Leave();
}

}  // namespace ascpipe
