#include "core/freed_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

namespace ascpipe {

namespace {

// M_MMAP_THRESHOLD: larger blocks get their own mapping.  This is glibc's maximum, half of a thread's heap.
constexpr int kLeastMapping = 32 << 20;
// M_TRIM_THRESHOLD: glibc trims a heap with more free memory at its end.  A thread's heap is never that large.
constexpr int kMostKept = 256 << 20;
// M_TOP_PAD: heaps grow by this much more than requested; pages are allocated on first write.  glibc unmaps a free
// thread heap unless the previous heap has less free space than this value, so the value is the size of a whole heap.
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
