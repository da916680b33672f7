// Rows on disk that this process reads: by the disk worker, through memory that a table's segment has for one reader.
#ifndef ASCPIPE_CORE_DISK_READS_H_
#define ASCPIPE_CORE_DISK_READS_H_

#include <cstdint>

#include "core/layout.h"

namespace ascpipe {

// Where the row of a key lies.
struct DiskPlace {
  std::int64_t key;
  std::int32_t slot;
  std::uint32_t generation;
};

// One owner at a time.  A reader that gives up leaves requests to the disk worker: the next one waits until IsIdle.
class DiskReads {
 public:
  // `header` of a table with rows on disk.
  DiskReads(layout::Table* header, int reader);

  // Whether the disk worker is at no request.
  bool IsIdle() const;
  // Asks for rows, at most kDiskReads, to be read, or to be written from row(i).  It is idle.  Then ring its bell.
  void Ask(const DiskPlace* places, std::int64_t count, layout::RequestKind kind);
  // Once it is idle: index of a row that could not be read or written, or -1; *error is why.
  std::int64_t FirstFailed(std::int32_t* error) const;

  std::int64_t count() const { return count_; }
  float* row(std::int64_t i) const { return rows_ + i * row_floats_; }  // float[row floats]

 private:
  layout::DiskTable* const table_;
  const int reader_;
  layout::Request* const requests_;  // [kDiskReads]
  float* const rows_;                // float[kDiskReads, row floats]
  const std::int64_t row_floats_;
  std::int64_t count_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_DISK_READS_H_
