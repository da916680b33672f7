// Snapshot of a table's entries, copied while the table worker changes the entries.
#ifndef ASCPIPE_CORE_ENTRY_SNAPSHOT_H_
#define ASCPIPE_CORE_ENTRY_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"

namespace ascpipe {

// Returns the number of entries of a table that are in use now or have been in use. `opened` is this process's private
// copy of the header, made when the table was created. `header` is the live header in shared memory.
std::int64_t EntriesUsed(const layout::Table& opened, const layout::Table& header);

// Starts a snapshot. The worker then logs an image of each entry before it changes the entry. Call BeginSnapshot
// between two steps, when no entry changes.
void BeginSnapshot(const layout::Table& opened, layout::Table* header);

// Ends the snapshot, even if it was not copied. The worker may be waiting for the end.
void EndSnapshot(layout::Table* header);

// Copies the entries of the snapshot to `entries`, block by block. The last block ends the snapshot. Then replaces the
// changed entries of the copy by the images that the worker logged. `bound` is the header's snapshot_bound, limited to
// the capacity of the table. `entries` has `bound` elements; the content of an element is undefined if the entry has no
// trained state. Calls `passed` after each block, because the worker may be waiting until an entry of the block is
// copied.
CoreStatus CopyEntries(const std::string& table, const layout::Table& opened, layout::Table* header, std::int64_t bound,
                       layout::Entry* entries, const std::function<void()>& passed);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ENTRY_SNAPSHOT_H_
