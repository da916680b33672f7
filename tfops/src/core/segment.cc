#include "core/segment.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "core/atomics.h"

namespace ascpipe {

namespace {
constexpr std::int64_t kFloatBytes = sizeof(float);
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
  // A child of the user's program must not keep the segments alive, or write into them.
  if (madvise(base, static_cast<std::size_t>(bytes), MADV_DONTFORK) != 0) {
    return Error(Code::kInternal, what, ": madvise(MADV_DONTFORK): ", std::strerror(errno));
  }
  // Every segment begins with its version, written last, and the magic number.
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
                 header->row_floats, ", expected ", sizes.device_rows, " rows of ", sizes.dim, " and ",
                 sizes.home_rows, " home rows of ", sizes.row_floats);
  }
  const std::int64_t room = segment.bytes() - header->home_offset;
  if (sizes.home_rows > 0 && (header->home_offset < static_cast<std::int64_t>(sizeof(layout::Table)) ||
                              header->home_offset % layout::kPage != 0 || room < 0 ||
                              room / sizes.row_floats / kFloatBytes < sizes.home_rows)) {
    return Error(Code::kInternal, "segment of table ", table, " has ", segment.bytes(), " bytes, ", sizes.home_rows,
                 " home rows of ", sizes.row_floats, " at byte ", header->home_offset, " do not fit into it");
  }
  const std::int64_t log_room = segment.bytes() - header->log_offset;
  if (header->log_offset < static_cast<std::int64_t>(sizeof(layout::Table)) ||
      header->log_offset % layout::kPage != 0 || log_room < 0 || header->log_capacity < 0 ||
      log_room / static_cast<std::int64_t>(sizeof(layout::Image)) < header->log_capacity) {
    return Error(Code::kInternal, "segment of table ", table, " has ", segment.bytes(), " bytes, a log of ",
                 header->log_capacity, " images at byte ", header->log_offset, " does not fit into it");
  }
  const std::int64_t entry_room = segment.bytes() - header->entries_offset;
  if (header->entries_offset < static_cast<std::int64_t>(sizeof(layout::Table)) ||
      header->entries_offset % layout::kCacheLine != 0 || entry_room < 0 || header->entry_capacity < 0 ||
      entry_room / static_cast<std::int64_t>(sizeof(layout::Entry)) < header->entry_capacity) {
    return Error(Code::kInternal, "segment of table ", table, " has ", segment.bytes(), " bytes, ",
                 header->entry_capacity, " entries at byte ", header->entries_offset, " do not fit into it");
  }
  return CoreStatus();
}

}  // namespace ascpipe
