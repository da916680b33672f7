// Reading of rows by an evaluation, for a table with rows on disk.
#ifndef ASCPIPE_BRIDGE_ROW_READING_H_
#define ASCPIPE_BRIDGE_ROW_READING_H_

#include <cstdint>
#include <memory>

#include "bridge/pipeline.h"
#include "bridge/step_rows.h"

namespace ascpipe {

// Announces its epoch before it asks the table worker for row locations, until all rows are copied.  Used by one thread
// at a time.
class RowReading {
 public:
  explicit RowReading(Table* table) : table_(table) {}
  ~RowReading() { End(); }
  RowReading(const RowReading&) = delete;
  RowReading& operator=(const RowReading&) = delete;

  // Call with the lease, before asking the worker.
  void Begin();
  // Call after the worker's answer.  Returns true if the requested rows are ready to be copied.
  bool MayCopy();
  // Returns true if rows have been copied, false if the answer was not taken yet.
  bool is_copying() const { return copies_ != nullptr; }
  // Copies the rows at home.  `slots`: the answer in a frame; becomes codes of copies.
  tensorflow::Status CopyHomes(const PartView& part, const PlanOutputs::Array& slots);
  // Copies the requested rows.
  tensorflow::Status CopyAsked();
  // Requests the next rows on disk and rings; returns false if all are copied.
  bool Ask(Pipeline* pipeline);
  // Ends the reading and returns the copies.
  std::shared_ptr<const StepRows> End();

 private:
  Table* const table_;
  std::int64_t epoch_ = 0;  // 0: it is not announced
  std::shared_ptr<StepRows> copies_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_READING_H_
