// What the evaluation of several ranks has read of a table, until all ranks have its rows.
#ifndef ASCPIPE_BRIDGE_PENDING_READ_H_
#define ASCPIPE_BRIDGE_PENDING_READ_H_

#include <cstdint>

#include "bridge/row_reading.h"
#include "bridge/table.h"
#include "core/part_view.h"
#include "core/row_moves.h"
#include "core/ticket.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Others may have had the lease since it was read: then the worker is asked again, as an answer is true for a lease.
class PendingRead {
 public:
  // `slots`: where its answer was copied to, of an op that the step still needs.
  PendingRead(const PartView& part, const Ticket* ticket, Table* table, const PlanOutputs::Array& slots)
      : part_(part), ticket_(ticket), table_(table), slots_(slots) {}

  const PartView& part() const { return part_; }
  const Ticket& ticket() const { return *ticket_; }
  Table& table() const { return *table_; }
  const std::int32_t* slots() const { return slots_.data; }

  // DONE -> ASKED; the worker is to be rung.
  void AskAgain() const;
  bool IsAnswered() const;
  // The ticket was closed: its frame may be another one's.
  bool IsClosed() const { return ticket_->state() != part_.frame(); }
  // Takes the answer, int32[distinct keys of the batch], over that of before; then copies rows if there is a reading.
  tensorflow::Status CopyAgain(RowReading* reading) const;
  // ANSWERED -> DONE.
  void Finish() const;

 private:
  PartView part_;
  const Ticket* ticket_;  // held by the step
  Table* table_;
  PlanOutputs::Array slots_;
};

// Why a read fails whose ticket was closed.
tensorflow::Status ClosedWhileRead(const std::string& table, std::int64_t ticket);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PENDING_READ_H_
