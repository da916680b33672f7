#include "core/freed_memory.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>

namespace ascpipe {

namespace {

// Smaller blocks come from heaps, larger ones are mappings of their own.  The largest value that glibc accepts: half of
// a thread's heap.
constexpr int kLeastMapping = 32 << 20;
// Free memory at the end of a heap that is given back.  A thread's heap never has so much.
constexpr int kMostKept = 256 << 20;
// By which heaps grow beyond what is asked for; it is taken from the system as it is written.  A thread's heap that
// gets free is given back, whatever it keeps, unless the heap before it lacks this much: so, as large as a whole heap.
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
