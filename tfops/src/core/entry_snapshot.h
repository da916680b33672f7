// Snapshot of a table's entries, copied while the table worker changes the entries.
#ifndef ASCPIPE_CORE_ENTRY_SNAPSHOT_H_
#define ASCPIPE_CORE_ENTRY_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"

namespace ascpipe {

// Returns the number of entries of a table that are or were in use. `opened` is this process's private copy of the
// header, made when the table was created. `header` is the live header in shared memory.
std::int64_t EntriesUsed(const layout::Table& opened, const layout::Table& header);

// Starts a snapshot. During a snapshot, the worker logs an image (a copy) of each entry before it changes the entry.
// Call BeginSnapshot between two steps, when no entry changes.
void BeginSnapshot(const layout::Table& opened, layout::Table* header);

// Ends the snapshot. Call EndSnapshot even if no entries were copied, because the worker may be waiting for the end.
void EndSnapshot(layout::Table* header);

// Copies the entries of the snapshot to `entries`, block by block. The copy of the last block ends the snapshot. After
// the last block, replaces changed entries of the copy by the images that the worker logged. `bound` is the header's
// snapshot_bound, limited to the capacity of the table. `entries` has `bound` elements. The elements of entries without
// trained state are undefined. Calls `passed` after each block. `passed` must wake the worker, which may be waiting for
// the copy of an entry.
CoreStatus CopyEntries(const std::string& table, const layout::Table& opened, layout::Table* header, std::int64_t bound,
                       layout::Entry* entries, const std::function<void()>& passed);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ENTRY_SNAPSHOT_H_
