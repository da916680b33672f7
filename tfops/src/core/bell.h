// Bell with which the publisher of a change wakes a sleeping process or thread.
//
// A publisher stores a state word with Exchange or CompareExchange, and then rings the bell. The owner of the bell sets
// `waiting`, checks the state again, and sleeps. Each bell has only one owner, so one flag is enough to show whether
// the owner sleeps.
#ifndef ASCPIPE_CORE_BELL_H_
#define ASCPIPE_CORE_BELL_H_

#include <sched.h>

#include <algorithm>
#include <cstdint>

#include "core/atomics.h"
#include "core/layout.h"

namespace ascpipe {

// Increments the futex word and wakes its sleepers. FUTEX_PRIVATE is not used, because sleepers may be other processes.
void FutexBumpAndWake(std::uint32_t* futex);

// Sleeps while *futex equals `seen`, but at most `slice_ms` milliseconds. Returns false after the timeout.
bool FutexSleep(std::uint32_t* futex, std::uint32_t seen, int slice_ms);

std::int64_t NowNs();  // monotonic

// Returns the spin time of the next wait, if the last wait took `waited_ns`. The spin time is twice `waited_ns`, but at
// least kLeastSpinNs and at most `most_ns`. Returns 0 if `waited_ns` exceeds `most_ns`, so that a thread does not
// occupy a core during long waits, for example for a training step.
std::int64_t SpinAfter(std::int64_t waited_ns, std::int64_t most_ns);

// Wakes the owner if it sleeps or pauses, or is about to sleep or pause.
inline void Ring(layout::Bell* bell) {
  FullFence();  // an owner that sets `waiting` after this load sees all changes published before the load
  if (LoadAcquire(&bell->waiting) != layout::kAwake) FutexBumpAndWake(&bell->futex);  // SYNC bell: load
}

// Wakes the owner if it sleeps, but not if it pauses. Call RingUnlessPausing from publishers that do not wait for the
// owner.
inline void RingUnlessPausing(layout::Bell* bell) {
  FullFence();
  if (LoadAcquire(&bell->waiting) == layout::kAsleep) FutexBumpAndWake(&bell->futex);  // SYNC bell: load
}

// Returns the maximum duration of the next sleep, if no new work arrived during a sleep of `slice_ms`. Longer sleeps do
// not delay work, because new work rings the bell.
inline int IdleSlice(int slice_ms) { return std::min(2 * slice_ms, layout::kIdleSliceMs); }

// The owner's side of a bell.
class BellOwner {
 public:
  BellOwner(layout::Bell* bell, int spin_us);

  // Waits until `ready()` returns true, but at most `slice_ms` milliseconds, so that the caller can check its stop
  // flags. `ready` may do work. `ready` is not called again after it has returned true. The last call of `ready` does
  // not count as waiting time.
  template <typename Ready>
  bool WaitSlice(Ready ready, int slice_ms = layout::kSliceMs) {
    if (ready()) return true;
    const std::int64_t began = NowNs();
    std::int64_t now = began;
    for (; now - began < spin_ns_; now = NowNs()) {
      if (ready()) {
        spin_ns_ = SpinAfter(now - began, most_spin_ns_);
        return true;
      }
      sched_yield();  // lets other threads run if there are more threads than processors
    }
    Exchange(&bell_->waiting, layout::kAsleep);  // SYNC bell: store
    const std::uint32_t seen = LoadAcquire(&bell_->futex);
    bool is_ready = ready();
    if (!is_ready) {
      const bool rung = FutexSleep(&bell_->futex, seen, slice_ms);
      spin_ns_ = SpinAfter(NowNs() - began, most_spin_ns_);
      Count(&bell_->sleeps, std::uint64_t{1});
      is_ready = ready();
      if (is_ready && !rung && !WasRung(seen)) Count(&bell_->late, std::uint64_t{1});
    }
    StoreRelease(&bell_->waiting, layout::kAwake);
    return is_ready;
  }

  // Sleeps until a publisher calls Ring, but at most `slice_ms` milliseconds. RingUnlessPausing does not end the sleep.
  // Returns immediately if `ready()` returns true.
  template <typename Ready>
  void Pause(Ready ready, int slice_ms = layout::kSliceMs) {
    const std::uint32_t seen = LoadAcquire(&bell_->futex);
    Exchange(&bell_->waiting, layout::kPausing);  // SYNC bell: store
    if (!ready()) FutexSleep(&bell_->futex, seen, slice_ms);
    StoreRelease(&bell_->waiting, layout::kAwake);
  }

  // Publishes what the owner waits for. `ascpipe status` shows the published values.
  void Says(layout::WaitsFor waits_for, std::int32_t table, std::int64_t ticket);

 private:
  // Returns true if the bell was rung after `seen` was read, or is rung within kGraceMs milliseconds. A publisher may
  // ring the bell shortly after the sleep has timed out.
  bool WasRung(std::uint32_t seen) const;

  layout::Bell* bell_;
  const std::int64_t most_spin_ns_;
  std::int64_t spin_ns_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BELL_H_
