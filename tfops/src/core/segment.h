// Shared-memory segments. The supervisor creates the segments and passes their descriptors to other processes.
#ifndef ASCPIPE_CORE_SEGMENT_H_
#define ASCPIPE_CORE_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"

namespace ascpipe {

// RAII mapping of a segment. Forked children do not inherit the mapping (MADV_DONTFORK).
class Segment {
 public:
  // Maps `bytes` of `fd`; the caller still owns `fd`. `what` is the name of the segment in error messages. Returns an
  // error if the file is shorter than `bytes`, because an access beyond the end of the file would raise SIGBUS. Also
  // returns an error if the layout version of the segment is not the version of this library.
  static CoreStatus Map(int fd, std::int64_t bytes, const std::string& what, std::unique_ptr<Segment>* segment);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::uint8_t* base() const { return base_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Segment(std::uint8_t* base, std::int64_t bytes) : base_(base), bytes_(bytes) {}

  std::uint8_t* base_;
  std::int64_t bytes_;
};

// View of the session segment.
struct SessionView {
  explicit SessionView(std::uint8_t* base)
      : session(reinterpret_cast<layout::Session*>(base)),
        bells(reinterpret_cast<layout::Bell*>(base + layout::kSessionBellsOffset)),
        exchanges(reinterpret_cast<layout::Exchanges*>(base + layout::kSessionExchangesOffset)),
        reading(reinterpret_cast<layout::Reading*>(base + layout::kSessionReadingOffset)) {}

  layout::Bell* DiskWorkerBell() const { return bells + layout::kBellDiskWorker; }
  layout::Bell* TableWorkerBell(int worker) const { return bells + layout::kBellTableWorkers + worker; }

  layout::Session* session;
  layout::Bell* bells;
  layout::Exchanges* exchanges;
  layout::Reading* reading;
};

// Sizes of a table.
struct TableSizes {
  std::int64_t dim;
  std::int64_t device_rows;
  std::int64_t home_rows;   // maximum; 0: the table has no home rows
  std::int64_t row_floats;  // floats of a home row: the embedding, then each optimizer slot
};

// Checks that the header of a table segment matches `sizes`. Also checks that the entries, home rows and images are
// inside the segment.
CoreStatus CheckTable(const Segment& segment, int table, const TableSizes& sizes);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_SEGMENT_H_
