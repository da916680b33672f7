// How much memory is left, checked before any is taken; as `require` of ascpipe/shm/memory.py does.
#ifndef ASCPIPE_CORE_MEMORY_ROOM_H_
#define ASCPIPE_CORE_MEMORY_ROOM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/core_status.h"

namespace ascpipe {

constexpr std::int64_t kMarginBytes = std::int64_t{16} << 20;  // left free within each limit

// Files in which the kernel reports memory; tests use their own.
struct MemoryPlaces {
  std::string meminfo = "/proc/meminfo";
  std::string own_groups = "/proc/self/cgroup";
  std::string group_root = "/sys/fs/cgroup";
};

// The memory that one limit leaves.
struct MemoryRoom {
  std::int64_t free_bytes;
  std::string text;  // a sentence with the numbers
};

// The known limits: of the control groups of this process (versions 1 and 2) and of their parents, then of the machine.
std::vector<MemoryRoom> MemoryRooms(const MemoryPlaces& places);

// Refuses to take `bytes` for the segment `fd` if a limit does not leave them; the text names every limit.
CoreStatus RequireMemory(int fd, std::int64_t bytes, const MemoryPlaces& places);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_MEMORY_ROOM_H_
