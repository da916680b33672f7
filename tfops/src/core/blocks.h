// Blocks of a range that several threads process in parallel.
#ifndef ASCPIPE_CORE_BLOCKS_H_
#define ASCPIPE_CORE_BLOCKS_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

#include "core/bell.h"

namespace ascpipe {

class Blocks {
 public:
  using Work = std::function<void(std::int64_t begin, std::int64_t end)>;

  // `work` must stay valid until Await has returned. A thread that calls Take after Await finds no block.
  Blocks(std::int64_t total, std::int64_t block, const Work* work) : total_(total), block_(block), work_(work) {}

  // Processes blocks until none is left. Any thread may call Take.
  void Take() {
    std::int64_t begin;
    while ((begin = next_.fetch_add(block_)) < total_) {
      const std::int64_t end = std::min(total_, begin + block_);
      (*work_)(begin, end);
      if (done_.fetch_add(end - begin) + end - begin < total_) continue;
      // Without the lock, the notification could be lost. A waiter holds the lock from its check of the count until it
      // sleeps.
      std::lock_guard<std::mutex> lock(mutex_);
      all_done_.notify_all();
    }
  }

  // Waits for the blocks that other threads are processing. Call Await after Take. The wait lasts about 10 us, or
  // longer if another thread was preempted. After 30 us, the caller sleeps instead of spinning, so that a preempted
  // thread can use the processor of the caller.
  void Await() {
    const std::int64_t until = NowNs() + kLooksNs;
    do {
      if (done_.load() == total_) return;
    } while (NowNs() < until);
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return done_.load() == total_; });
  }

 private:
  static constexpr std::int64_t kLooksNs = 30000;

  const std::int64_t total_;
  const std::int64_t block_;
  const Work* const work_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
};

// Smallest invalid index that threads reported while they processed blocks.
class FirstBad {
 public:
  void Note(std::int64_t bad) {  // -1: nothing
    std::int64_t known = at_.load();
    while (bad >= 0 && (known < 0 || bad < known) && !at_.compare_exchange_weak(known, bad)) {
    }
  }
  bool none() const { return at() < 0; }
  std::int64_t at() const { return at_.load(); }  // -1: none

 private:
  std::atomic<std::int64_t> at_{-1};
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BLOCKS_H_
