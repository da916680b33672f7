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
  Status status = ToStatus(CopyPlan(table_->name(), part_, column, {slots_, {}}));
  if (status.ok() && reading != nullptr) status = reading->CopyHomes(part_, slots_);
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

}  // namespace ascpipe
