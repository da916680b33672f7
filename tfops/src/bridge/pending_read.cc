#include "bridge/pending_read.h"

#include "bridge/status.h"
#include "core/atomics.h"
#include "core/error_codes.gen.h"
#include "core/row_moves.h"

namespace ascpipe {

using tensorflow::Status;

void PendingRead::AskAgain() const {
  Exchange(part_.word(), static_cast<std::uint32_t>(layout::kAsked));  // SYNC keys-asked: store
}

bool PendingRead::IsAnswered() const {
  return LoadAcquire(part_.word()) == layout::kAnswered;  // SYNC keys-answered: load
}

Status PendingRead::CopyAgain(RowReading* reading) const {
  const PlanColumn column = {&layout::Part::slots, table_->LowestAnswer(), table_->sizes().device_rows};
  std::int64_t bad = -1;
  const bool copied = CopyPlan(part_, column, {slots_, {}}, &bad);
  if (IsClosed()) return ClosedWhileRead(table_->name(), ticket_->number());
  if (!copied) return BadSlot(table_->name(), bad, ticket_->number());
  if (reading == nullptr) return Status::OK();
  const Status status = reading->CopyHomes(part_, slots_, ticket_->number());
  return IsClosed() ? ClosedWhileRead(table_->name(), ticket_->number()) : status;
}

void PendingRead::Finish() const {
  Exchange(part_.word(), static_cast<std::uint32_t>(layout::kDone));  // SYNC plan-done: store
}

Status ClosedWhileRead(const std::string& table, std::int64_t ticket) {
  return Refuse(Code::kFailedPrecondition, "ticket ", SequenceOf(ticket), " of table '", table,
                "' was closed while it was read: another step that used the same batch has ended, or the pipeline was "
                "stopped. A batch is fetched and used in one run call");
}

Status BadSlot(const std::string& table, std::int64_t slot, std::int64_t ticket) {
  return Refuse(kE301, "table '", table, "': slot ", slot, " of the plan of ticket ", SequenceOf(ticket),
                " is outside the table. The record is damaged; restart the program");
}

}  // namespace ascpipe
