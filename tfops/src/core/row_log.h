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

// Before a step changes a row that was not saved yet, the step stores an image of the row. The reader then uses the
// image.
//
// The number of a row is the number of its home row. If the table has rows on disk, the number of a row is the number
// of its entry, because such rows move between home rows. Each number has a word with one of three values: untouched,
// read (or not wanted), or the index of the image. Both the reader and the step copy the row first, and then
// compare-exchange the word. If the reader's compare-exchange succeeds, the row was unchanged. Otherwise the reader
// discards its copy.
class RowLog {
 public:
  // The snapshot covers row numbers below `numbers`. Call Make between two steps.
  static CoreStatus Make(const std::string& table, const HomeRows& home, std::int64_t numbers, std::int64_t bytes,
                         std::unique_ptr<RowLog>* log);

  // Returns true if `count` more images fit. A row has at most one image.
  bool HasRoom(std::int64_t count) const { return capacity_ >= numbers_ || capacity_ - kept() >= count; }
  // Stores images of the home rows homes[begin, end), at most one image per number. A number or home row of -1 is
  // skipped. Several threads may call Keep for different ranges.
  void Keep(const std::int32_t* numbers, const std::int32_t* homes, std::int64_t begin, std::int64_t end);

  // Restricts the snapshot to the rows in `numbers`, which is int32[count]. Other rows need no images. Call WantOnly
  // before the first Read.
  void WantOnly(const std::int32_t* numbers, std::int64_t count);
  // Copies row homes[i], as it was at the start of the save, to out[i]. `homes` is int32[count], and `out` is
  // float[count, row_floats]. Read each row once. The table must have no rows on disk.
  void Read(const std::int32_t* homes, std::int64_t count, float* out);
  // Replaces `row`, a copy of the current row, by the image of the row if there is an image. Call Settle once per row.
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
  // The pages of both arrays are allocated on first access.
  const PrivateArray<std::uint32_t> words_;  // [numbers_]: 0, kRead, or 1 + index of the image
  const PrivateArray<float> images_;         // [capacity_, row_floats]
  std::int64_t used_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_LOG_H_
