// Memory that a step frees. malloc keeps the memory for the next step, unless the user's settings forbid it.
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"
#include "core/freed_memory.h"

using namespace ascpipe;

#ifndef __SANITIZE_ADDRESS__  // which has a malloc of its own
namespace {

// The blocks together are larger than two heaps of a thread, which have 64 MB each.
constexpr std::size_t kBlockBytes = std::size_t{18} << 20;
constexpr int kBlocks = 8, kSteps = 20;

// Returns the page faults of a thread whose steps write some large blocks and free them.
long FaultsOfSteps() {
  long faults = 0;
  std::thread thread([&faults] {
    rusage before{}, after{};
    for (int step = 0; step < kSteps; ++step) {
      if (step == 1) getrusage(RUSAGE_THREAD, &before);
      std::vector<void*> blocks;
      for (int i = 0; i < kBlocks; ++i) {
        blocks.push_back(std::malloc(kBlockBytes));
        std::memset(blocks.back(), 1, kBlockBytes);
      }
      for (void* block : blocks) std::free(block);
    }
    getrusage(RUSAGE_THREAD, &after);
    faults = after.ru_minflt - before.ru_minflt;
  });
  thread.join();
  return faults;
}

}  // namespace
#endif

TEST(MallocIsLeftAloneWhereTheUserHasSetIt) {
  for (const char* name : {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_"}) {
    setenv(name, "131072", 1);
    CHECK(!KeepFreedMemory());
    unsetenv(name);
  }
  setenv("GLIBC_TUNABLES", "glibc.cpu.x86_ibt=off:glibc.malloc.trim_threshold=131072", 1);
  CHECK(!KeepFreedMemory());
  unsetenv("GLIBC_TUNABLES");
}

#ifndef __SANITIZE_ADDRESS__
TEST(StepsFaultInTheirMemoryOnce) {
  CHECK(FaultsOfSteps() > kSteps * 100);  // with the default settings of glibc
  setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=4", 1);
  CHECK(KeepFreedMemory());
  unsetenv("GLIBC_TUNABLES");
  CHECK(FaultsOfSteps() < 100);
}
#endif
