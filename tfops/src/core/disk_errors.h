// Errors about rows on disk.
#ifndef ASCPIPE_CORE_DISK_ERRORS_H_
#define ASCPIPE_CORE_DISK_ERRORS_H_

#include <cstdint>
#include <string>

#include "core/core_status.h"
#include "core/disk_reads.h"

namespace ascpipe {

// Returns the error of a failed read or write of a row on disk. `directories` lists the folders of the table's row
// files. `error` is an errno or a negative Damage (disk/row_format.h).
CoreStatus CannotMove(const std::string& table, const std::string& directories, const DiskPlace& place,
                      layout::RequestKind kind, std::int32_t error);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_DISK_ERRORS_H_
