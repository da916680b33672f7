#include "core/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace ascpipe {

std::int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

void FutexBumpAndWake(std::uint32_t* futex) {
  FetchAdd(futex, 1u);
  syscall(SYS_futex, futex, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool FutexSleep(std::uint32_t* futex, std::uint32_t seen, int slice_ms) {
  timespec slice;
  slice.tv_sec = slice_ms / 1000;
  slice.tv_nsec = (slice_ms % 1000) * 1000000L;
  const long result = syscall(SYS_futex, futex, FUTEX_WAIT, seen, &slice, nullptr, 0);
  return result == 0 || errno != ETIMEDOUT;
}

std::int64_t SpinAfter(std::int64_t waited_ns, std::int64_t most_ns) {
  return waited_ns <= most_ns ? std::min(most_ns, std::max(2 * waited_ns, layout::kLeastSpinNs)) : 0;
}

BellOwner::BellOwner(layout::Bell* bell, int spin_us)
    : bell_(bell), most_spin_ns_(std::int64_t{1000} * spin_us), spin_ns_(most_spin_ns_) {
  StoreRelease(&bell_->pid, static_cast<std::int32_t>(getpid()));
}

void BellOwner::Says(layout::WaitsFor waits_for, std::int32_t table, std::int64_t ticket) {
  StoreRelease(&bell_->waits_table, table);
  StoreRelease(&bell_->waits_ticket, ticket);
  StoreRelease(&bell_->waits_for, static_cast<std::int32_t>(waits_for));
}

bool BellOwner::WasRung(std::uint32_t seen) const { return FutexSleep(&bell_->futex, seen, layout::kGraceMs); }

}  // namespace ascpipe
