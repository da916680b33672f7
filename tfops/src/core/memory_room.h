// How much memory there is, before any is taken: the C++ twin of what `require` of ascpipe/shm/memory.py looks at.
#ifndef ASCPIPE_CORE_MEMORY_ROOM_H_
#define ASCPIPE_CORE_MEMORY_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/core_status.h"

namespace ascpipe {

constexpr std::int64_t kMarginBytes = std::int64_t{16} << 20;  // left to everybody else in each limit

// Where the kernel tells of memory; tests put files of their own there.
struct MemoryPlaces {
  std::string meminfo = "/proc/meminfo";
  std::string own_groups = "/proc/self/cgroup";
  std::string group_root = "/sys/fs/cgroup";
};

// What one limit leaves.
struct MemoryRoom {
  std::int64_t free_bytes;
  std::string text;  // a sentence with the numbers
};

// The limits of the control groups that we are in (version 1 and 2) and of their parents, then what the machine has left;
// those that are known.
std::vector<MemoryRoom> MemoryRooms(const MemoryPlaces& places);

// Refuses to take `bytes` for the segment `fd` where a limit does not leave them; the text names every limit.
CoreStatus RequireMemory(int fd, std::int64_t bytes, const MemoryPlaces& places);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_MEMORY_ROOM_H_
