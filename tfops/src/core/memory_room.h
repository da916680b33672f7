// Checks the available memory before an allocation, like `require` in ascpipe/shm/memory.py.
#ifndef ASCPIPE_CORE_MEMORY_ROOM_H_
#define ASCPIPE_CORE_MEMORY_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/core_status.h"

namespace ascpipe {

constexpr std::int64_t kMarginBytes = std::int64_t{16} << 20;  // left free within each limit

// Kernel files that report memory. Tests replace these files.
struct MemoryPlaces {
  std::string meminfo = "/proc/meminfo";
  std::string own_groups = "/proc/self/cgroup";
  std::string group_root = "/sys/fs/cgroup";
};

// Memory that is available within one limit.
struct MemoryRoom {
  std::int64_t free_bytes;
  std::string text;  // a sentence with the numbers
};

// Returns the available memory within each known limit. The limits are the control groups of this process (versions 1
// and 2), their parents, and the memory of the machine, in this order.
std::vector<MemoryRoom> MemoryRooms(const MemoryPlaces& places);

// Returns an error if a limit leaves too little memory for `bytes` more bytes in the segment `fd`. The error message
// contains every limit.
CoreStatus RequireMemory(int fd, std::int64_t bytes, const MemoryPlaces& places);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_MEMORY_ROOM_H_
