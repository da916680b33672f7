// The partner of test_bell.py over the C++ side of a bell: answers each turn and rings.
//   bell_partner FD SPIN_US WAY ROUNDS
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "core/atomics.h"
#include "core/bell.h"
#include "core/layout.h"

int main(int count, char** words) {
  if (count != 5) return 2;
  const std::int64_t bytes = ascpipe::layout::kSessionBytes + 4096;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, std::atoi(words[1]), 0);
  if (memory == MAP_FAILED) return 3;
  std::uint8_t* base = static_cast<std::uint8_t*>(memory);
  auto* bells = reinterpret_cast<ascpipe::layout::Bell*>(base + ascpipe::layout::kSessionBellsOffset);
  auto* turns = reinterpret_cast<std::uint32_t*>(base + ascpipe::layout::kSessionBytes);
  ascpipe::BellOwner mine(bells + 1, std::atoi(words[2]));
  const std::uint32_t rounds = static_cast<std::uint32_t>(std::atoi(words[4]));
  for (std::uint32_t turn = 1; turn <= rounds; ++turn) {
    const std::int64_t until = ascpipe::NowNs() + 20000000000;
    while (!mine.WaitSlice([&] { return ascpipe::LoadAcquire(turns) == turn; })) {
      if (ascpipe::NowNs() > until) {
        std::fprintf(stderr, "round %u never came\n", turn);
        return 1;
      }
    }
    ascpipe::Exchange(turns + 16, turn);
    ascpipe::Ring(bells);
  }
  return 0;
}
