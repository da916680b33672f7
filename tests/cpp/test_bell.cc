// Spin time of the owner of a bell before it sleeps. tests/unit/shm/test_spinning.py has the same tests for Python.
#include <atomic>
#include <thread>

#include "check.h"
#include "core/atomics.h"
#include "core/bell.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kUs = 1000;
constexpr std::int64_t kMost = 200 * kUs;

// Returns the number of checks of an owner during a slice of 1 ms in which nothing is published.
int Looks(BellOwner* bell) {
  int looks = 0;
  bell->WaitSlice([&looks] { return ++looks < 0; }, 1);
  return looks;
}

}  // namespace

TEST(LooksWithoutARingGetRare) {
  int slice_ms = layout::kSliceMs;
  for (int i = 0; i < 4; ++i) slice_ms = IdleSlice(slice_ms);
  CHECK_EQ(slice_ms, 16 * layout::kSliceMs);
  CHECK_EQ(IdleSlice(slice_ms), layout::kIdleSliceMs);
  CHECK_EQ(IdleSlice(layout::kIdleSliceMs), layout::kIdleSliceMs);
}

TEST(TwiceAsLongAsTheLastWaitWithinLimitsAndNotAtAllAfterALongOne) {
  CHECK_EQ(SpinAfter(0, kMost), 20 * kUs);
  CHECK_EQ(SpinAfter(10 * kUs, kMost), 20 * kUs);
  CHECK_EQ(SpinAfter(60 * kUs, kMost), 120 * kUs);
  CHECK_EQ(SpinAfter(100 * kUs, kMost), kMost);
  CHECK_EQ(SpinAfter(200 * kUs, kMost), kMost);
  CHECK_EQ(SpinAfter(201 * kUs, kMost), std::int64_t{0});
}

TEST(WhoMayNotSpinNeverDoes) {
  CHECK_EQ(SpinAfter(0, 0), std::int64_t{0});
  CHECK_EQ(SpinAfter(1, 0), std::int64_t{0});
}

TEST(AWaitInVainIsFollowedByOneThatSleepsAtOnce) {
  layout::Bell bell{};
  BellOwner owner(&bell, 100000);  // so long that the owner checks more than three times on any machine
  CHECK(Looks(&owner) > 3);
  CHECK_EQ(Looks(&owner), 3);  // at the begin, after `waiting` is set, and after the wake-up
}

TEST(APauseIsEndedByOneThatWaitsAndNotByOneThatBringsWork) {
  layout::Bell bell{};
  BellOwner owner(&bell, 0);
  std::atomic<bool> paused{true};
  std::thread thread([&] {
    owner.Pause([] { return false; }, 20000);
    paused.store(false);
  });
  while (LoadAcquire(&bell.waiting) != layout::kPausing) std::this_thread::yield();
  const std::uint32_t before = LoadAcquire(&bell.futex);
  RingUnlessPausing(&bell);
  CHECK_EQ(LoadAcquire(&bell.futex), before);
  CHECK(paused.load());
  Ring(&bell);
  thread.join();
  CHECK_EQ(bell.waiting, layout::kAwake);
  CHECK_EQ(bell.late, 0u);
}

TEST(APauseDoesNotBeginIfWhatEndsItIsThere) {
  layout::Bell bell{};
  BellOwner owner(&bell, 0);
  owner.Pause([] { return true; }, 20000);
  CHECK_EQ(bell.waiting, layout::kAwake);
}

TEST(AnOwnerThatSleepsIsWokenByOneThatBringsWork) {
  layout::Bell bell{};
  BellOwner owner(&bell, 0);
  std::atomic<bool> came{false};
  std::thread thread([&] { CHECK(owner.WaitSlice([&came] { return came.load(); }, 20000)); });
  while (LoadAcquire(&bell.waiting) != layout::kAsleep) std::this_thread::yield();
  came.store(true);
  RingUnlessPausing(&bell);
  thread.join();
  CHECK_EQ(bell.late, 0u);
}
