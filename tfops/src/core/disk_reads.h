// Requests of this process to read and write rows on disk. Only the disk worker accesses the row files. The disk worker
// exchanges the rows with this process in a buffer of the table's segment.
#ifndef ASCPIPE_CORE_DISK_READS_H_
#define ASCPIPE_CORE_DISK_READS_H_

#include <cstdint>

#include "core/layout.h"

namespace ascpipe {

// Location of a key's row on disk.
struct DiskPlace {
  std::int64_t key;
  std::int32_t slot;
  std::uint32_t generation;
};

// Only one owner at a time may use a DiskReads. If the owner stops waiting, the disk worker still finishes the
// requests. Therefore the next owner must wait until IsIdle returns true.
class DiskReads {
 public:
  // `header` is the header of a table with rows on disk.
  DiskReads(layout::Table* header, int reader);

  // Returns true if the disk worker has no unfinished request.
  bool IsIdle() const;
  // Requests a read or a write of at most kDiskReads rows. The disk worker reads row i into row(i), or writes row i
  // from row(i). Call Ask only if IsIdle returns true, and ring the disk worker's bell afterwards.
  void Ask(const DiskPlace* places, std::int64_t count, layout::RequestKind kind);
  // Returns the index of the first row whose request failed and sets *error. Returns -1 if no request failed. Call
  // FirstFailed only if IsIdle returns true.
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
