// Read of a table by an evaluation with several ranks. The PendingRead exists until all ranks have the rows.
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

// An answer of the worker is valid only while the step holds the lease. If the step has released the lease, the step
// must request the answer again.
class PendingRead {
 public:
  // `slots` is the plan op's output that contains the worker's answer. The step keeps the output allocated.
  PendingRead(const PartView& part, const Ticket* ticket, Table* table, const PlanOutputs::Array& slots)
      : part_(part), ticket_(ticket), table_(table), slots_(slots) {}

  const PartView& part() const { return part_; }
  const Ticket& ticket() const { return *ticket_; }
  Table& table() const { return *table_; }
  const std::int32_t* slots() const { return slots_.data; }

  // Changes the part's word from DONE to ASKED. The caller must ring the worker.
  void AskAgain() const;
  bool IsAnswered() const;
  // Returns true if the ticket was closed. The frame of a closed ticket may have been reused.
  bool IsClosed() const { return ticket_->state() != part_.frame(); }
  // Replaces the old answer in `slots` by the new answer, one int32 per distinct key of the batch. Also copies the rows
  // if `reading` is not null.
  tensorflow::Status CopyAgain(RowReading* reading) const;
  // Changes the part's word from ANSWERED to DONE.
  void Finish() const;

 private:
  PartView part_;
  const Ticket* ticket_;  // the step has a ticket hold
  Table* table_;
  PlanOutputs::Array slots_;
};

// Returns the error of a read whose ticket was closed.
tensorflow::Status ClosedWhileRead(const std::string& table, std::int64_t ticket);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PENDING_READ_H_
