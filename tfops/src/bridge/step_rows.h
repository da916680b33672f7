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

// Copies of the rows that a step reads from a table with rows on disk. The step needs copies, because the workers move
// rows between memory and disk while the step runs. The copies are made while the epoch of the evaluation is announced.
class StepRows {
 public:
  explicit StepRows(const Table& table) : table_(&table) {}

  // Copies the home rows that the worker's answer in `slots` refers to. Stores the locations of rows on disk for Ask.
  // Replaces the codes in `slots` by codes of the copies: kSlotHome - i for copy i. Returns an error only if the record
  // is damaged.
  CoreStatus Take(const PartView& part, const PlanOutputs::Array& slots);

  // Requests the next rows on disk. Returns false if no rows are left. `reads` must be idle.
  bool Ask(DiskReads* reads);
  // Copies the rows that the last call of Ask requested.
  CoreStatus Take(const DiskReads& reads);

  const float* rows() const { return rows_.data(); }  // float[count, dim]
  std::int64_t count() const { return static_cast<std::int64_t>(rows_.size()) / table_->device().dim(); }

 private:
  const Table* table_;
  std::vector<float> rows_;
  std::vector<DiskPlace> places_;     // locations of the rows on disk
  std::vector<std::int64_t> copies_;  // index of the copy of each row on disk
  std::size_t begin_ = 0, end_ = 0;   // range of the elements of places_ that were requested last
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_ROWS_H_
