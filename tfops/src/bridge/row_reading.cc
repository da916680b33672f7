#include "bridge/row_reading.h"

#include "bridge/pending_read.h"
#include "bridge/status.h"
#include "core/bell.h"

namespace ascpipe {

using tensorflow::Status;

namespace {
constexpr int kEvaluations = 0;  // kind of the reader
}

void RowReading::Begin() {
  if (epoch_ == 0) epoch_ = table_->epochs(kEvaluations).Begin();
}

bool RowReading::MayCopy() {
  return table_->TakeDiskReads(kEvaluations, this) && table_->disk_reads(kEvaluations).IsIdle();
}

Status RowReading::CopyHomes(const PartView& part, const PlanOutputs::Array& slots) {
  copies_ = std::make_shared<StepRows>(*table_);
  return ToStatus(copies_->Take(part, slots));
}

Status RowReading::CopyAsked() { return ToStatus(copies_->Take(table_->disk_reads(kEvaluations))); }

bool RowReading::Ask(Pipeline* pipeline) {
  if (!copies_->Ask(&table_->disk_reads(kEvaluations))) return false;
  Ring(pipeline->DiskWorkerBell());
  return true;
}

std::shared_ptr<const StepRows> RowReading::End() {
  if (epoch_ != 0) {
    table_->epochs(kEvaluations).End(epoch_);
    table_->LeaveDiskReads(kEvaluations, this);
  }
  epoch_ = 0;
  return std::move(copies_);
}

}  // namespace ascpipe
