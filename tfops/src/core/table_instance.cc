#include "core/table_instance.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "core/layout.h"

namespace ascpipe {

CoreStatus HostDeviceTable::Make(const std::string& name, std::int64_t row_count, std::int64_t dim,
                                 std::shared_ptr<DeviceTable>* table) {
  if (row_count < 1 || dim < 1 || row_count > layout::kSlotFrozen ||
      dim > std::numeric_limits<std::int64_t>::max() / row_count / 8) {
    return Error(Code::kInvalidArgument, "table '", name, "': ", row_count, " rows of ", dim,
                 " are not possible (rows: 1 to ", layout::kSlotFrozen, ")");
  }
  const std::size_t bytes = static_cast<std::size_t>(row_count * dim) * sizeof(float);
  // MADV_DONTFORK is not used, because a forked child may read its variables, which use the memory of the rows.
  void* rows = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (rows == MAP_FAILED) {
    return Error(Code::kResourceExhausted, "table '", name, "': ", bytes, " bytes for ", row_count, " rows of ", dim,
                 " cannot be mapped: ", std::strerror(errno), ". Lower device_vocabulary_size");
  }
  madvise(rows, bytes, MADV_HUGEPAGE);  // a hint: without it lookups miss the TLB more often
  table->reset(new HostDeviceTable(static_cast<float*>(rows), row_count, dim, bytes));
  return CoreStatus();
}

HostDeviceTable::~HostDeviceTable() { munmap(rows_, bytes_); }

}  // namespace ascpipe
