// Reads and writes of rows on disk for saves and loads. The disk worker reads and writes the rows in chunks.
#ifndef ASCPIPE_BRIDGE_DISK_MOVES_H_
#define ASCPIPE_BRIDGE_DISK_MOVES_H_

#include <cstdint>

#include "bridge/pipeline.h"
#include "bridge/table.h"
#include "core/core_status.h"
#include "core/disk_reads.h"

namespace ascpipe {

constexpr int kSaveReader = 1;  // reader number of saves and loads

// Reads or writes rows on disk. `rows` is float[count, row floats]. Only loads may write rows. MoveDiskRows waits for
// the disk worker and for other users of the table's read buffer. `owner` owns the read buffer while MoveDiskRows runs.
CoreStatus MoveDiskRows(Pipeline* pipeline, Table* table, const void* owner, layout::RequestKind kind,
                        const DiskPlace* places, std::int64_t count, float* rows);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_DISK_MOVES_H_
