// Counters of the threads that read training data, for `ascpipe status`.
#ifndef ASCPIPE_CORE_READING_FIGURES_H_
#define ASCPIPE_CORE_READING_FIGURES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/layout.h"
#include "core/span_ring.h"

namespace ascpipe {

// Counters of the process. The counters are copied to shared memory only after the session has published its memory,
// because datasets may read records before the session exists. The methods are thread-safe. Add is called a few times
// per batch.
class ReadingFigures {
 public:
  static ReadingFigures* Get();

  void Add(const layout::Reading& by);
  // Adds `by` to the counters, and records the span of a batch.
  void Add(const layout::Reading& by, const layout::ReadingSpan& span);
  // Copies the counters to `shared`, now and after each Add, and records spans in `spans`, which may be null.
  void Publish(layout::Reading* shared, std::shared_ptr<SpanRing<layout::ReadingSpan>> spans);
  // Stops recording spans and copying to `shared`, and sets the counters to 0. The caller may unmap `shared` after
  // Withdraw. Withdraw has no effect if another session has published its memory in the meantime.
  void Withdraw(const layout::Reading* shared);

 private:
  void AddLocked(const layout::Reading& by);
  void Copy() const;

  std::mutex mutex_;  // guards the members below
  layout::Reading own_{};
  layout::Reading* shared_ = nullptr;
  std::shared_ptr<SpanRing<layout::ReadingSpan>> spans_;
};

// Measures time in microseconds.
class ReadingClock {
 public:
  // Returns the time since the previous call of Lap, or since the construction.
  std::int64_t Lap();

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_READING_FIGURES_H_
