#include "core/reading_figures.h"

#include <utility>

#include "core/atomics.h"
#include "core/fork.h"

namespace ascpipe {

namespace {

constexpr std::int64_t layout::Reading::*kReadingCounters[] = {
    &layout::Reading::records, &layout::Reading::bytes,    &layout::Reading::batches, &layout::Reading::skipped,
    &layout::Reading::read_us, &layout::Reading::parse_us, &layout::Reading::full_us, &layout::Reading::waited_us};

}  // namespace

ReadingFigures* ReadingFigures::Get() {
  static ReadingFigures* const figures = new ReadingFigures;  // threads of iterators may outlive static objects
  return figures;
}

void ReadingFigures::Add(const layout::Reading& by) {
  if (InForkedChild()) return;  // the child has no shared memory, and another thread may have held the lock
  std::lock_guard<std::mutex> lock(mutex_);
  AddLocked(by);
}

void ReadingFigures::Add(const layout::Reading& by, const layout::ReadingSpan& span) {
  if (InForkedChild()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  AddLocked(by);
  if (spans_ != nullptr) spans_->Add(span);
}

void ReadingFigures::AddLocked(const layout::Reading& by) {
  for (const auto counter : kReadingCounters) own_.*counter += by.*counter;
  own_.readers += by.readers;
  Copy();
}

void ReadingFigures::Publish(layout::Reading* shared, std::shared_ptr<SpanRing<layout::ReadingSpan>> spans) {
  std::lock_guard<std::mutex> lock(mutex_);
  shared_ = shared;
  spans_ = std::move(spans);
  Copy();
}

void ReadingFigures::Withdraw(const layout::Reading* shared) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (shared_ != shared) return;
  shared_ = nullptr;
  spans_ = nullptr;
  for (const auto counter : kReadingCounters) own_.*counter = 0;
}

void ReadingFigures::Copy() const {
  if (shared_ == nullptr) return;
  for (const auto counter : kReadingCounters) StoreRelease(&(shared_->*counter), own_.*counter);
  StoreRelease(&shared_->readers, own_.readers);
}

std::int64_t ReadingClock::Lap() {
  const auto now = std::chrono::steady_clock::now();
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(now - last_);
  last_ = now;
  return passed.count();
}

}  // namespace ascpipe
