// Wait of a thread of the program. A thread of the program may sleep, because it does not belong to TensorFlow's thread
// pool.
#ifndef ASCPIPE_BRIDGE_THREAD_WAIT_H_
#define ASCPIPE_BRIDGE_THREAD_WAIT_H_

#include <condition_variable>
#include <memory>
#include <mutex>

#include "core/waiter.h"

namespace ascpipe {

// Subclasses implement Poll.
class ThreadWait : public Wait {
 public:
  void Finish(const CoreStatus& status) final {
    std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    finished_ = true;
    changed_.notify_all();
  }

  // Adds `wait` to the waiter and sleeps until the wait is over. After Sleep, the caller may read the results of Poll.
  static CoreStatus Sleep(Waiter& waiter, const std::shared_ptr<ThreadWait>& wait) {
    waiter.Add(wait);
    std::unique_lock<std::mutex> lock(wait->mutex_);
    wait->changed_.wait(lock, [&wait] { return wait->finished_; });  // the waiter ends every wait
    return wait->status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  CoreStatus status_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_THREAD_WAIT_H_
