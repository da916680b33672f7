// What the evaluation of several ranks has read of a table, until all ranks have its rows.
#ifndef ASCPIPE_BRIDGE_PENDING_READ_H_
#define ASCPIPE_BRIDGE_PENDING_READ_H_

#include <cstdint>

#include "bridge/table.h"
#include "core/ring.h"
#include "core/ticket.h"
#include "tensorflow/core/framework/tensor.h"

namespace ascpipe {

// Others may have had the lease since it was read: then the worker is asked again, as an answer is true for a lease.
class PendingRead {
 public:
  PendingRead(const RingView& ring, int index, std::int64_t frame, const Ticket* ticket, const Table* table)
      : ring_(ring), index_(index), frame_(frame), ticket_(ticket), table_(table) {}

  const RingView& ring() const { return ring_; }
  int index() const { return index_; }
  const Ticket& ticket() const { return *ticket_; }
  const Table& table() const { return *table_; }

  // DONE -> ASKED; the worker is to be rung.
  void AskAgain() const;
  bool IsAnswered() const;
  // The ticket was closed: its frame may be another one's.
  bool IsClosed() const { return ticket_->state() != frame_; }
  // Takes the answer, int32[distinct keys of the batch], over that of before: ANSWERED -> DONE.
  tensorflow::Status CopyAgain(tensorflow::Tensor* slots) const;

 private:
  RingView ring_;
  int index_;  // of the table in the ring
  std::int64_t frame_;
  const Ticket* ticket_;  // held by the step
  const Table* table_;
};

// Why a read fails whose ticket was closed.
tensorflow::Status ClosedWhileRead(const std::string& table, std::int64_t ticket);
// A number of an answer that is no slot.
tensorflow::Status BadSlot(const std::string& table, std::int64_t slot, std::int64_t ticket);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PENDING_READ_H_
