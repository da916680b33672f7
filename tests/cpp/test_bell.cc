// How long the owner of a bell looks again before it sleeps; the twin of tests/unit/shm/test_spinning.py.
#include "check.h"
#include "core/bell.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kUs = 1000;
constexpr std::int64_t kMost = 200 * kUs;

// How often an owner looks in a slice of 1 ms, where nothing comes.
int Looks(BellOwner* bell) {
  int looks = 0;
  bell->WaitSlice([&looks] { return ++looks < 0; }, 1);
  return looks;
}

}  // namespace

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
  BellOwner owner(&bell, 100000);  // so long that it looks more than three times on any machine
  CHECK(Looks(&owner) > 3);
  CHECK_EQ(Looks(&owner), 3);  // when it comes, when it has said that it waits, and when it wakes
}
