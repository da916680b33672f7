// Counters of readers.  They reach the memory of a session, and nothing is written there after the session.
#include <thread>
#include <vector>

#include "check.h"
#include "core/reading_figures.h"

using namespace ascpipe;

namespace {

layout::Reading Counts(std::int64_t records, std::int64_t readers) {
  layout::Reading counts{};
  counts.records = records;
  counts.full_us = 2 * records;
  counts.readers = readers;
  return counts;
}

}  // namespace

TEST(CountersFromBeforeTheSessionAreInItsMemory) {
  ReadingFigures figures;
  figures.Add(Counts(3, 1));
  layout::Reading shared{};
  figures.Publish(&shared);
  CHECK_EQ(shared.records, 3);
  figures.Add(Counts(4, 1));
  CHECK_EQ(shared.records, 7);
  CHECK_EQ(shared.full_us, 14);
  CHECK_EQ(shared.readers, 2);
}

TEST(TheNextSessionCountsFromZeroButReadersRemain) {
  ReadingFigures figures;
  layout::Reading first{}, second{};
  figures.Publish(&first);
  figures.Add(Counts(5, 2));
  figures.Withdraw(&first);
  figures.Add(Counts(1, -1));
  CHECK_EQ(first.records, 5);
  figures.Publish(&second);
  CHECK_EQ(second.records, 1);
  CHECK_EQ(second.readers, 1);
}

TEST(ASessionThatEndsLateDoesNotEndTheNextOne) {
  ReadingFigures figures;
  layout::Reading first{}, second{};
  figures.Publish(&first);
  figures.Publish(&second);
  figures.Withdraw(&first);
  figures.Add(Counts(6, 0));
  CHECK_EQ(second.records, 6);
  CHECK_EQ(first.records, 0);
}

TEST(NoCountOfSeveralThreadsIsLost) {
  ReadingFigures figures;
  layout::Reading shared{};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&figures] {
      for (int i = 0; i < 1000; ++i) figures.Add(Counts(1, 0));
    });
  }
  figures.Publish(&shared);
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(shared.records, 4000);
}
