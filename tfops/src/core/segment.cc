#include "core/segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/atomics.h"

namespace ascpipe {

namespace {
constexpr std::int64_t kFloatBytes = sizeof(float);

// Array of records after the header of a table's segment.
struct SegmentPart {
  const char* what;
  std::int64_t offset;  // a multiple of `unit`
  std::int64_t count;
  std::int64_t record_bytes;
  std::int64_t unit;
};

bool Fits(const SegmentPart& piece, std::int64_t bytes) {
  if (piece.count == 0) return true;
  return piece.count > 0 && piece.offset >= static_cast<std::int64_t>(sizeof(layout::Table)) &&
         piece.offset % piece.unit == 0 && piece.offset <= bytes &&
         (bytes - piece.offset) / piece.record_bytes >= piece.count;
}

}  // namespace

CoreStatus Segment::Map(int fd, std::int64_t bytes, const std::string& what, std::unique_ptr<Segment>* segment) {
  if (bytes < layout::kCacheLine) {
    return Error(Code::kInvalidArgument, what, " has ", bytes, " bytes, at least ", layout::kCacheLine, " are needed");
  }
  struct stat status;
  if (fstat(fd, &status) != 0) {
    return Error(Code::kInternal, what, ": descriptor ", fd, " cannot be examined: ", std::strerror(errno));
  }
  if (status.st_size < bytes) {
    return Error(Code::kInternal, what, " has ", status.st_size, " bytes instead of ", bytes);
  }
  void* base = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base == MAP_FAILED) {
    return Error(Code::kInternal, what, ": ", bytes, " bytes cannot be mapped: ", std::strerror(errno));
  }
  segment->reset(new Segment(static_cast<std::uint8_t*>(base), bytes));
  // A child process of the user's program must not keep the segments alive, and must not write to them.
  if (madvise(base, static_cast<std::size_t>(bytes), MADV_DONTFORK) != 0) {
    return Error(Code::kInternal, what, ": madvise(MADV_DONTFORK): ", std::strerror(errno));
  }
  // Every segment begins with its version and the magic number. The creator of a segment writes the version last.
  const std::uint32_t* words = reinterpret_cast<const std::uint32_t*>(base);
  const std::uint32_t version = LoadAcquire(words);
  if (version != layout::kVersion || words[1] != layout::kMagic) {
    return Error(Code::kFailedPrecondition, what, " has layout version ", version, " (magic ", words[1],
                 "), this library has version ", layout::kVersion, " (magic ", layout::kMagic,
                 "). Install matching versions of daemon and trainer");
  }
  return CoreStatus();
}

Segment::~Segment() { munmap(base_, static_cast<std::size_t>(bytes_)); }

CoreStatus CheckTable(const Segment& segment, int table, const TableSizes& sizes) {
  if (segment.bytes() < static_cast<std::int64_t>(sizeof(layout::Table))) {
    return Error(Code::kInternal, "segment of table ", table, " has only ", segment.bytes(), " bytes");
  }
  const layout::Table* header = reinterpret_cast<const layout::Table*>(segment.base());
  if (header->table != table || header->dim != sizes.dim || header->device_rows != sizes.device_rows ||
      header->home_capacity != sizes.home_rows || header->row_floats != sizes.row_floats) {
    return Error(Code::kInternal, "segment of table ", table, " is of table ", header->table, " with ",
                 header->device_rows, " rows of ", header->dim, " and ", header->home_capacity, " home rows of ",
                 header->row_floats, ", expected ", sizes.device_rows, " rows of ", sizes.dim, " and ", sizes.home_rows,
                 " home rows of ", sizes.row_floats);
  }
  const SegmentPart pieces[] = {
      {"entries", header->entries_offset, header->entry_capacity, sizeof(layout::Entry), layout::kCacheLine},
      {"home rows", header->home_offset, sizes.home_rows, sizes.row_floats * kFloatBytes, layout::kPage},
      {"images", header->log_offset, header->log_capacity, sizeof(layout::Image), layout::kPage},
  };
  for (const SegmentPart& piece : pieces) {
    if (Fits(piece, segment.bytes())) continue;
    return Error(Code::kInternal, "segment of table ", table, " has ", segment.bytes(), " bytes, ", piece.count, " ",
                 piece.what, " of ", piece.record_bytes, " bytes at byte ", piece.offset, " do not fit into it");
  }
  return CoreStatus();
}

}  // namespace ascpipe
