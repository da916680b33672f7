// Thread that moves parked batches of all streams into their rings and frees frames.
#ifndef ASCPIPE_CORE_PUMP_H_
#define ASCPIPE_CORE_PUMP_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/bell.h"
#include "core/segment.h"
#include "core/span_ring.h"
#include "core/stream.h"

namespace ascpipe {

class Pump {
 public:
  // The streams must outlive the pump. Readers of training data record spans in `reading_spans` while the pump runs.
  // `reading_spans` may be null.
  Pump(const SessionView& session, int spin_us, std::vector<Stream*> streams,
       std::shared_ptr<SpanRing<layout::ReadingSpan>> reading_spans);
  ~Pump() { Stop(); }

  void Start();
  void Add(Stream* stream);  // may be called while the thread runs
  void Stop();               // idempotent; returns when the thread has ended

 private:
  void Run();
  bool Round();
  std::int64_t FirstParked();  // first parked ticket of all streams; 0: none

  const SessionView session_;
  const int spin_us_;
  std::mutex mutex_;
  std::vector<Stream*> streams_;  // guarded by mutex_
  const std::shared_ptr<SpanRing<layout::ReadingSpan>> reading_spans_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_PUMP_H_
