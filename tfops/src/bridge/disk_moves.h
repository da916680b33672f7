// How a save or a load reads and writes rows on disk: by the disk worker, some rows at a time.
#ifndef ASCPIPE_BRIDGE_DISK_MOVES_H_
#define ASCPIPE_BRIDGE_DISK_MOVES_H_

#include <cstdint>

#include "bridge/pipeline.h"
#include "bridge/table.h"
#include "core/core_status.h"
#include "core/disk_reads.h"

namespace ascpipe {

constexpr int kSaveReader = 1;  // which of a table's readers saves and loads are

// Reads rows, or in a load writes them: float[count, row floats].  Waits for the disk worker, and for others that use
// the table's memory for it.
//   owner   of that memory, until this returns
CoreStatus MoveDiskRows(Pipeline* pipeline, Table* table, const void* owner, layout::RequestKind kind,
                        const DiskPlace* places, std::int64_t count, float* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_DISK_MOVES_H_
