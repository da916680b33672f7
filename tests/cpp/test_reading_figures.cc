// Counters of readers.  They reach the memory of a session, and nothing is written there after the session.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
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
  figures.Publish(&shared, nullptr);
  CHECK_EQ(shared.records, 3);
  figures.Add(Counts(4, 1));
  CHECK_EQ(shared.records, 7);
  CHECK_EQ(shared.full_us, 14);
  CHECK_EQ(shared.readers, 2);
}

TEST(TheNextSessionCountsFromZeroButReadersRemain) {
  ReadingFigures figures;
  layout::Reading first{}, second{};
  figures.Publish(&first, nullptr);
  figures.Add(Counts(5, 2));
  figures.Withdraw(&first);
  figures.Add(Counts(1, -1));
  CHECK_EQ(first.records, 5);
  figures.Publish(&second, nullptr);
  CHECK_EQ(second.records, 1);
  CHECK_EQ(second.readers, 1);
}

TEST(ASessionThatEndsLateDoesNotEndTheNextOne) {
  ReadingFigures figures;
  layout::Reading first{}, second{};
  figures.Publish(&first, nullptr);
  figures.Publish(&second, nullptr);
  figures.Withdraw(&first);
  figures.Add(Counts(6, 0));
  CHECK_EQ(second.records, 6);
  CHECK_EQ(first.records, 0);
}

TEST(SpansOfBatchesAreRecordedWhileTheSessionRuns) {
  constexpr std::int64_t kBytes = sizeof(layout::TrainerSpans) + 2 * sizeof(layout::ReadingSpan);
  const int fd = memfd_create("ascpipe-test", MFD_CLOEXEC);
  CHECK_EQ(ftruncate(fd, kBytes), 0);
  void* const base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  auto* const header = static_cast<layout::TrainerSpans*>(base);
  header->magic = layout::kMagic;
  header->capacity = 2;
  header->version = layout::kVersion;
  std::shared_ptr<SpanRing<layout::ReadingSpan>> ring;
  CHECK(SpanRing<layout::ReadingSpan>::Map(fd, kBytes, 0, 1, &ring).ok());
  ReadingFigures figures;
  layout::Reading shared{};
  layout::ReadingSpan span{};
  figures.Add(Counts(1, 0), span);  // before the session
  figures.Publish(&shared, ring);
  for (span.batch = 1; span.batch <= 3; ++span.batch) figures.Add(Counts(1, 0), span);
  figures.Add(Counts(1, 0));
  CHECK_EQ(shared.records, 5);
  CHECK_EQ(header->count, 3);
  const auto* const spans = reinterpret_cast<const layout::ReadingSpan*>(header + 1);
  CHECK_EQ(spans[0].batch, 3);
  CHECK_EQ(spans[1].batch, 2);
  figures.Withdraw(&shared);
  figures.Add(Counts(1, 0), span);
  CHECK_EQ(header->count, 3);
  munmap(base, kBytes);
  close(fd);
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
  figures.Publish(&shared, nullptr);
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(shared.records, 4000);
}
