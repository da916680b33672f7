#include "core/freed_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

namespace ascpipe {

namespace {

// Value of M_MMAP_THRESHOLD, the size above which malloc uses a separate mapping for a block. 32 MiB is the maximum
// that glibc accepts, half the size of a thread's heap.
constexpr int kLeastMapping = 32 << 20;
// Value of M_TRIM_THRESHOLD. glibc trims a heap if more than M_TRIM_THRESHOLD bytes are free at its end. A thread's
// heap is always smaller than 256 MiB.
constexpr int kMostKept = 256 << 20;
// Value of M_TOP_PAD. A heap grows by M_TOP_PAD bytes more than requested. Pages of a heap are allocated on first
// write. glibc keeps an empty heap of a thread only if the previous heap has less than M_TOP_PAD bytes of free space.
// Therefore M_TOP_PAD is the size of a whole heap.
constexpr int kGrowth = 64 << 20;

constexpr const char* kVariables[] = {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"};
constexpr const char* kTunables[] = {"malloc.mmap_threshold", "malloc.trim_threshold", "malloc.top_pad"};

bool IsSetByUser() {
  for (const char* name : kVariables) {
    if (std::getenv(name) != nullptr) return true;
  }
  const char* const tunables = std::getenv("GLIBC_TUNABLES");
  if (tunables == nullptr) return false;
  for (const char* name : kTunables) {
    if (std::strstr(tunables, name) != nullptr) return true;
  }
  return false;
}

}  // namespace

bool KeepFreedMemory() {
  return !IsSetByUser() && mallopt(M_MMAP_THRESHOLD, kLeastMapping) == 1 && mallopt(M_TRIM_THRESHOLD, kMostKept) == 1 &&
         mallopt(M_TOP_PAD, kGrowth) == 1;
}

}  // namespace ascpipe
