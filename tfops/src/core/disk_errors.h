// Errors about rows on disk.
#ifndef ASCPIPE_CORE_DISK_ERRORS_H_
#define ASCPIPE_CORE_DISK_ERRORS_H_

#include <cstdint>
#include <string>

#include "core/core_status.h"
#include "core/disk_reads.h"

namespace ascpipe {

// directories: of the table's files; `error` of a request: an errno, or below 0 what stands in the slot instead of the
// row.
CoreStatus CannotMove(const std::string& table, const std::string& directories, const DiskPlace& place,
                      layout::RequestKind kind, std::int32_t error);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_DISK_ERRORS_H_
