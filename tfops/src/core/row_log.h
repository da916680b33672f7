// Home rows as they were when a save began, while training goes on and changes them.
#ifndef ASCPIPE_CORE_ROW_LOG_H_
#define ASCPIPE_CORE_ROW_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/home_rows.h"
#include "core/private_memory.h"

namespace ascpipe {

// Whoever is about to change a row that is not read yet keeps its old image first; whoever reads takes the image.
//
// Each row has a word: nobody was there yet, it is read (or nobody wants it), or where its image lies.  Reader and
// keeper each do their copy first and then a compare-exchange of the word, so that one of them was first: where
// the reader was, the row had not changed yet; where the keeper was, the reader throws its copy away.
class RowLog {
 public:
  // `home`: rows that the save may want are those with memory now.  Made between two steps.
  static CoreStatus Make(const std::string& table, const HomeRows& home, std::int64_t bytes,
                         std::unique_ptr<RowLog>* log);

  // Whether so many images fit in any case; each row has one at most.
  bool HasRoom(std::int64_t count) const { return capacity_ >= home_.ready || capacity_ - kept() >= count; }
  // Keeps rows homes[begin, end), each of them at most once; -1 names none.  Threads may share the rows of a step.
  void Keep(const std::int32_t* homes, std::int64_t begin, std::int64_t end);

  // Says which rows the save wants, before the first Read: the others need no images any more.
  //   homes  int32[count]
  void WantOnly(const std::int32_t* homes, std::int64_t count);
  // out[i] = row homes[i] as it was; each row once.
  //   homes  int32[count]   out  float[count, row_floats]
  void Read(const std::int32_t* homes, std::int64_t count, float* out);

  std::int64_t rows() const { return home_.ready; }
  std::int64_t kept() const;  // images so far

 private:
  RowLog(const HomeRows& home, std::int64_t capacity);

  const HomeRows home_;
  const std::int64_t capacity_;
  // Both get their memory as they are touched.
  const PrivateArray<std::uint32_t> words_;  // [home_.ready]: 0, kRead, or 1 + index of the image
  const PrivateArray<float> images_;         // [capacity_, row_floats]
  std::int64_t used_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_LOG_H_
