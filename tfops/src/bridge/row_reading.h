// Reads the rows of an evaluation from a table with rows on disk.
#ifndef ASCPIPE_BRIDGE_ROW_READING_H_
#define ASCPIPE_BRIDGE_ROW_READING_H_

#include <cstdint>
#include <memory>

#include "bridge/pipeline.h"
#include "bridge/step_rows.h"

namespace ascpipe {

// A RowReading announces its epoch before it requests row locations from the table worker, and withdraws the epoch when
// all rows are copied. Only one thread at a time may use a RowReading.
class RowReading {
 public:
  explicit RowReading(Table* table) : table_(table) {}
  ~RowReading() { End(); }
  RowReading(const RowReading&) = delete;
  RowReading& operator=(const RowReading&) = delete;

  // Announces the epoch. Call Begin while the step holds the lease, before the step sends a request to the table
  // worker.
  void Begin();
  // Returns true if this RowReading owns the table's read buffer and the disk worker has no unfinished request. Call
  // MayCopy after the table worker has answered. MayCopy acquires the read buffer if the buffer has no owner.
  bool MayCopy();
  // Returns true between the calls of CopyHomes and End.
  bool is_copying() const { return copies_ != nullptr; }
  // Copies the rows that are in host memory. CopyHomes replaces the worker's answer in `slots` by the codes of the
  // copies.
  tensorflow::Status CopyHomes(const PartView& part, const PlanOutputs::Array& slots);
  // Copies the rows that the disk worker has read.
  tensorflow::Status CopyAsked();
  // Requests the next rows on disk and rings the disk worker. Returns false if all rows are copied.
  bool Ask(Pipeline* pipeline);
  // Withdraws the epoch, releases the read buffer, and returns the copies.
  std::shared_ptr<const StepRows> End();

 private:
  Table* const table_;
  std::int64_t epoch_ = 0;  // 0: no epoch is announced
  std::shared_ptr<StepRows> copies_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_READING_H_
