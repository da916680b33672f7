#include "core/fork.h"

#include <pthread.h>

#include <atomic>

namespace ascpipe {

namespace {
std::atomic<bool> forked{false};
void MarkChild() { forked.store(true); }
}  // namespace

bool InForkedChild() { return forked.load(std::memory_order_relaxed); }

void WatchForks() {
  static const int registered = pthread_atfork(nullptr, nullptr, MarkChild);
  (void)registered;
}

}  // namespace ascpipe
