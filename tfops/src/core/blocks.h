// Blocks of a range that threads take one after the other until there are none.
#ifndef ASCPIPE_CORE_BLOCKS_H_
#define ASCPIPE_CORE_BLOCKS_H_

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

namespace ascpipe {

class Blocks {
 public:
  using Work = std::function<void(std::int64_t begin, std::int64_t end)>;

  // `work` is the caller's, who stays until Await has returned; a thread that comes later finds no block.
  Blocks(std::int64_t total, std::int64_t block, const Work* work) : total_(total), block_(block), work_(work) {}

  // Any thread: works on blocks until all are taken.
  void Take() {
    std::int64_t begin;
    while ((begin = next_.fetch_add(block_)) < total_) {
      const std::int64_t end = std::min(total_, begin + block_);
      (*work_)(begin, end);
      done_.fetch_add(end - begin);
    }
  }

  // After Take: waits for the blocks that other threads are at work on, some ten microseconds.
  void Await() const {
    while (done_.load() < total_) sched_yield();
  }

 private:
  const std::int64_t total_;
  const std::int64_t block_;
  const Work* const work_;
  std::atomic<std::int64_t> next_{0};
  std::atomic<std::int64_t> done_{0};
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BLOCKS_H_
