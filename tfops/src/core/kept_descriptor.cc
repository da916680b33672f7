#include "core/kept_descriptor.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>

namespace ascpipe {

namespace {

constexpr int kPlaces = 256;     // a pipeline has 32 rings, and a stopped pipeline may still exist
std::atomic<int> kept[kPlaces];  // descriptor + 1, or 0 if free. Atomic, because a forked child must not take a lock.

void CloseAll() {
  for (std::atomic<int>& place : kept) {
    const int fd = place.exchange(0) - 1;
    if (fd >= 0) close(fd);
  }
}

}  // namespace

KeptDescriptor::KeptDescriptor(int fd) {
  static const int registered = pthread_atfork(nullptr, nullptr, CloseAll);
  if (registered != 0) return;
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return;
  for (int place = 0; place < kPlaces; ++place) {
    int free = 0;
    if (kept[place].compare_exchange_strong(free, copy + 1)) {
      place_ = place;
      return;
    }
  }
  close(copy);
}

int KeptDescriptor::get() const { return place_ < 0 ? -1 : kept[place_].load() - 1; }

void KeptDescriptor::Close() {
  if (place_ < 0) return;
  const int fd = kept[place_].exchange(0) - 1;
  if (fd >= 0) close(fd);
  place_ = -1;
}

}  // namespace ascpipe
