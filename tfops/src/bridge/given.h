// Objects that Python refers to by number (holds, saves, instances).
#ifndef ASCPIPE_BRIDGE_GIVEN_H_
#define ASCPIPE_BRIDGE_GIVEN_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/core_status.h"
#include "core/fork.h"

namespace ascpipe {

// A Given is never destroyed, because a thread may still use an item at exit.
template <typename T>
class Given {
 public:
  explicit Given(const char* what) : what_(what) {}

  std::int64_t Add(std::shared_ptr<T> item) {
    std::lock_guard<std::mutex> lock(mutex_);
    items_[++last_] = std::move(item);
    return last_;
  }

  CoreStatus Find(std::int64_t number, std::shared_ptr<T>* item) {
    if (!InForkedChild()) {  // checked before locking, because another thread may have held the lock at the fork
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = items_.find(number);
      if (found != items_.end()) {
        *item = found->second;
        return CoreStatus();
      }
    }
    return Error(Code::kFailedPrecondition, what_, " ", number, " is not there, or was given back");
  }

  // Removes an item from the list. The item is destroyed when no thread uses it.
  CoreStatus GiveBack(std::int64_t number) {
    std::shared_ptr<T> item;
    const CoreStatus status = Find(number, &item);
    if (!status.ok()) return status;
    std::lock_guard<std::mutex> lock(mutex_);
    items_.erase(number);
    return status;
  }

 private:
  const char* const what_;
  std::mutex mutex_;
  std::int64_t last_ = 0;
  std::map<std::int64_t, std::shared_ptr<T>> items_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_GIVEN_H_
