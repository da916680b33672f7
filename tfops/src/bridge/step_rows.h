// Copies of rows that an evaluation reads from a table with rows on disk.
#ifndef ASCPIPE_BRIDGE_STEP_ROWS_H_
#define ASCPIPE_BRIDGE_STEP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bridge/table.h"
#include "core/core_status.h"
#include "core/disk_reads.h"
#include "core/part_view.h"
#include "core/row_moves.h"

namespace ascpipe {

// Rows move between home and disk while a step runs, so it reads copies, made while its epoch stands.
class StepRows {
 public:
  explicit StepRows(const Table& table) : table_(&table) {}

  // Copies the rows at home that the answer in a frame names, and notes those on disk.  `slots`: the answer; codes of
  // these rows become codes of the copies: kSlotHome - i for copy i.  Fails only if the record is damaged.
  CoreStatus Take(const PartView& part, const PlanOutputs::Array& slots);

  // Requests the next rows on disk; returns false if there are none left.  The reads must be idle.
  bool Ask(DiskReads* reads);
  // Takes what was asked for.
  CoreStatus Take(const DiskReads& reads);

  const float* rows() const { return rows_.data(); }  // float[count, dim]
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()) / table_->device().dim(); }

 private:
  const Table* table_;
  std::vector<float> rows_;
  std::vector<DiskPlace> places_;     // of rows on disk
  std::vector<std::int64_t> copies_;  // the copy that each becomes
  std::size_t begin_ = 0, end_ = 0;   // of those that were asked for last
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_ROWS_H_
