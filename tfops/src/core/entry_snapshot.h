// The entries of a table as they were at one moment, copied while its worker goes on and changes them.
#ifndef ASCPIPE_CORE_ENTRY_SNAPSHOT_H_
#define ASCPIPE_CORE_ENTRY_SNAPSHOT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "core/core_status.h"
#include "core/layout.h"

namespace ascpipe {

// Lets the worker keep images from now on; between two steps, when nobody changes an entry.
void BeginSnapshot(layout::Table* header);

// Ends it, copied or not.  The worker may sleep and wait for it.
void EndSnapshot(layout::Table* header);

// Copies the entries of the snapshot that is on, in blocks of increasing number, and lays over them the images that the
// worker has kept; the snapshot is over then.
//   entries  [snapshot_bound]; those without trained state mean nothing
// `passed` is called after each block: the worker may wait for it.
CoreStatus CopyEntries(const std::string& table, layout::Table* header, layout::Entry* entries,
                       const std::function<void()>& passed);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ENTRY_SNAPSHOT_H_
