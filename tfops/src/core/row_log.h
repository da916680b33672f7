// A snapshot of home rows as they were when a save began, while training changes them (copy on write).
#ifndef ASCPIPE_CORE_ROW_LOG_H_
#define ASCPIPE_CORE_ROW_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/home_rows.h"
#include "core/private_memory.h"

namespace ascpipe {

// A step that is about to change a row that was not read yet first keeps its old image; the reader takes the image.
//
// Each row has a number: that of the home row, or that of its entry where rows go to disk, as they move between home
// rows then.  Of each number there is a word: untouched, read (or not wanted), or the index of its image.  Reader and
// keeper each copy the row first and then compare-exchange the word, so one of them comes first.  If the reader does,
// the row had not changed yet; if the keeper does, the reader discards its copy.
class RowLog {
 public:
  // The save may want rows whose numbers are below `numbers`.  Constructed between two steps.
  static CoreStatus Make(const std::string& table, const HomeRows& home, std::int64_t numbers, std::int64_t bytes,
                         std::unique_ptr<RowLog>* log);

  // Whether `count` further images fit; each row has one at most.
  bool HasRoom(std::int64_t count) const { return capacity_ >= numbers_ || capacity_ - kept() >= count; }
  // Keeps home rows homes[begin, end) under their numbers, each at most once; -1 names none.  Threads may share the
  // rows of a step.
  void Keep(const std::int32_t* numbers, const std::int32_t* homes, std::int64_t begin, std::int64_t end);

  // Names the rows that the save wants, before it reads the first one: the others need no images from then on.
  //   numbers  int32[count]
  void WantOnly(const std::int32_t* numbers, std::int64_t count);
  // Where a row's number is that of its home row: out[i] = row homes[i] as it was; each row once.
  //   homes  int32[count]   out  float[count, row_floats]
  void Read(const std::int32_t* homes, std::int64_t count, float* out);
  // `row` is a copy of the row; it becomes the row as it was.  Each row once.
  void Settle(std::int64_t number, float* row);
  // Whether a row that is wanted is still to be read.
  bool IsToRead(std::int64_t number) const;

  std::int64_t numbers() const { return numbers_; }
  std::int64_t kept() const;  // images so far

 private:
  RowLog(const HomeRows& home, std::int64_t numbers, std::int64_t capacity);

  const HomeRows home_;
  const std::int64_t numbers_;
  const std::int64_t capacity_;
  // Both take memory as they are touched.
  const PrivateArray<std::uint32_t> words_;  // [numbers_]: 0, kRead, or 1 + index of the image
  const PrivateArray<float> images_;         // [capacity_, row_floats]
  std::int64_t used_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_LOG_H_
