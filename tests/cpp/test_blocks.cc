// Blocks that threads share.  Each item is processed once, and no thread waits for a thread that never starts.
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "core/blocks.h"

using namespace ascpipe;

namespace {

// Returns how often each of `total` items was processed by `threads` threads.  The last threads may start after all
// items are processed.
std::vector<int> Visits(std::int64_t total, std::int64_t block, int threads) {
  std::vector<int> visits(total, 0);  // not atomic, because two threads never process the same item
  std::vector<std::thread> helpers;
  {
    const Blocks::Work work = [&visits](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++visits[i];
    };
    const auto blocks = std::make_shared<Blocks>(total, block, &work);
    for (int i = 1; i < threads; ++i) helpers.emplace_back([blocks] { blocks->Take(); });
    blocks->Take();
    blocks->Await();
  }
  const std::vector<int> seen = visits;  // the work is done, even if threads still run
  for (std::thread& helper : helpers) helper.join();
  return seen;
}

}  // namespace

TEST(EveryItemIsWorkedOnOnce) {
  for (const std::int64_t total : {1, 7, 64, 1000}) {
    for (const std::int64_t block : {1, 16, 5000}) {
      for (const int threads : {1, 2, 5}) {
        for (const int visit : Visits(total, block, threads)) CHECK_EQ(visit, 1);
      }
    }
  }
}

TEST(NothingIsDoneAtOnce) { CHECK_EQ(Visits(0, 16, 3).size(), 0u); }

TEST(AThreadThatComesLateFindsNoBlock) {
  std::shared_ptr<Blocks> blocks;
  int calls = 0;
  {
    const Blocks::Work work = [&calls](std::int64_t, std::int64_t) { ++calls; };
    blocks = std::make_shared<Blocks>(10, 3, &work);
    blocks->Take();
    blocks->Await();
  }
  blocks->Take();  // the work does not exist any more
  CHECK_EQ(calls, 4);
}
