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

// Before a step changes a row that was not saved yet, the step stores an image of the row, which the reader uses.
//
// Each row has a number: the number of its home row, or of its entry if rows go to disk (such rows move between home
// rows).  Each number has a word: untouched, read (or not wanted), or the index of its image.  Reader and keeper first
// copy the row and then compare-exchange the word.  If the reader wins, the row was unchanged; if the keeper wins, the
// reader discards its copy.
class RowLog {
 public:
  // The snapshot covers row numbers below `numbers`.  Call between two steps.
  static CoreStatus Make(const std::string& table, const HomeRows& home, std::int64_t numbers, std::int64_t bytes,
                         std::unique_ptr<RowLog>* log);

  // Returns true if `count` more images fit.  A row has at most one image.
  bool HasRoom(std::int64_t count) const { return capacity_ >= numbers_ || capacity_ - kept() >= count; }
  // Stores images of home rows homes[begin, end), at most once per number; -1 is skipped.  Several threads may call it
  // for different ranges.
  void Keep(const std::int32_t* numbers, const std::int32_t* homes, std::int64_t begin, std::int64_t end);

  // Restricts the snapshot to these rows; other rows need no images.  Call before the first Read.
  //   numbers  int32[count]
  void WantOnly(const std::int32_t* numbers, std::int64_t count);
  // out[i] = row homes[i] at the start of the save.  The table has no rows on disk.  Read each row once.
  //   homes  int32[count]   out  float[count, row_floats]
  void Read(const std::int32_t* homes, std::int64_t count, float* out);
  // Replaces `row`, a current copy of the row, by its image if there is one.  Call once per row.
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
  // Both are paged in on first access.
  const PrivateArray<std::uint32_t> words_;  // [numbers_]: 0, kRead, or 1 + index of the image
  const PrivateArray<float> images_;         // [capacity_, row_floats]
  std::int64_t used_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_LOG_H_
