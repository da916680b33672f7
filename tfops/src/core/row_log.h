// Copy-on-write snapshot of home rows for a background save.
#ifndef ASCPIPE_CORE_ROW_LOG_H_
#define ASCPIPE_CORE_ROW_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/home_rows.h"
#include "core/private_memory.h"

namespace ascpipe {

// Log of rows for a background save. Before a step changes a row that the save has not read yet, the step stores an
// image (a copy of the row) in the log. If there is an image, the save reads the image instead of the row.
//
// A row is identified by the number of its home row. If the table has rows on disk, a row is identified by the number
// of its entry, because rows move between home rows. The log has one word for each row. The word is 0 if the row is
// untouched, and kRead if the row was read or is not wanted. If the row has an image, the word is 1 plus the index of
// the image. Both the save and the step copy the row first, and then compare-exchange the word. If the compare-exchange
// of the save succeeds, no step has changed the row yet. If the compare-exchange of the save fails, the save discards
// its copy and uses the image.
class RowLog {
 public:
  // The snapshot covers row numbers below `numbers`. Call Make between two steps.
  static CoreStatus Make(const std::string& table, const HomeRows& home, std::int64_t numbers, std::int64_t bytes,
                         std::unique_ptr<RowLog>* log);

  // Returns true if `count` more images fit into the log. A row has at most one image.
  bool HasRoom(std::int64_t count) const { return capacity_ >= numbers_ || capacity_ - kept() >= count; }
  // For each i in [begin, end), stores an image of home row homes[i] for the row with number numbers[i]. Skips rows
  // that the save has read and rows that already have an image. Also skips i if numbers[i] or homes[i] is -1. Several
  // threads may call Keep for different ranges.
  void Keep(const std::int32_t* numbers, const std::int32_t* homes, std::int64_t begin, std::int64_t end);

  // Restricts the snapshot to the rows in `numbers`, so that no images of other rows are stored. `numbers` is
  // int32[count]. Call WantOnly before the first Read.
  void WantOnly(const std::int32_t* numbers, std::int64_t count);
  // Copies the state of row homes[i] at the start of the save to out[i]. `homes` is int32[count], and `out` is
  // float[count, row_floats]. Read each row only once. The table must have no rows on disk.
  void Read(const std::int32_t* homes, std::int64_t count, float* out);
  // `row` is a copy of the current row. If the row has an image, Settle overwrites the copy with the image. Call Settle
  // once per row.
  void Settle(std::int64_t number, float* row);
  // Returns true if the row is wanted and was not read yet.
  bool IsToRead(std::int64_t number) const;

  std::int64_t numbers() const { return numbers_; }
  std::int64_t kept() const;  // number of images

 private:
  RowLog(const HomeRows& home, std::int64_t numbers, std::int64_t capacity);

  const HomeRows home_;
  const std::int64_t numbers_;
  const std::int64_t capacity_;
  // The pages of words_ and images_ are allocated on first access.
  const PrivateArray<std::uint32_t> words_;  // [numbers_]: 0, kRead, or 1 + index of the image
  const PrivateArray<float> images_;         // [capacity_, row_floats]
  std::int64_t used_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_LOG_H_
