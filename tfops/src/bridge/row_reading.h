// The way of an evaluation to the rows of a table that has some on disk.
#ifndef ASCPIPE_BRIDGE_ROW_READING_H_
#define ASCPIPE_BRIDGE_ROW_READING_H_

#include <cstdint>
#include <memory>

#include "bridge/pipeline.h"
#include "bridge/step_rows.h"

namespace ascpipe {

// Its epoch stands from before the table worker is asked where rows lie until all are copied.  Used by one thread at a
// time: those that poll and end a wait.
class RowReading {
 public:
  explicit RowReading(Table* table) : table_(table) {}
  ~RowReading() { End(); }
  RowReading(const RowReading&) = delete;
  RowReading& operator=(const RowReading&) = delete;

  // Before the worker is asked, with the lease.
  void Begin();
  // Once the worker has answered: whether rows may be copied, as those that were asked for are there.
  bool MayCopy();
  // Whether rows have been copied; false: the answer is still to be taken.
  bool is_copying() const { return copies_ != nullptr; }
  // Copies the rows at home.  `slots`: the answer in a frame; becomes codes of copies.
  tensorflow::Status CopyHomes(const PartView& part, const PlanOutputs::Array& slots);
  // Takes what was asked for.
  tensorflow::Status CopyAsked();
  // Asks for rows on disk, then rings; false: all are copied.
  bool Ask(Pipeline* pipeline);
  // The copies; the reading is over.
  std::shared_ptr<const StepRows> End();

 private:
  Table* const table_;
  std::int64_t epoch_ = 0;  // 0: it is not announced
  std::shared_ptr<StepRows> copies_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_READING_H_
