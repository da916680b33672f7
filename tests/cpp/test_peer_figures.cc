// Statistics of a rank's exchanges: sums, the exchange in flight, and the rank that other ranks wait for.
#include "check.h"
#include "peers/figures.h"

using namespace ascpipe;

namespace {

using Clock = PeerFigures::Clock;

Clock::time_point At(int us) { return Clock::time_point(std::chrono::microseconds(us)); }

PeerHeader Busy(std::int64_t us, PeerKind kind = PeerKind::kForward) {
  PeerHeader header;
  header.kind = kind;
  header.busy_us = us;
  header.stream = 3;
  header.ticket = 17;
  return header;
}

}  // namespace

TEST(SumsAndTheExchangeUnderWayAreShown) {
  layout::Exchanges shown{};
  PeerFigures figures(&shown, nullptr, 1, 2);
  CHECK_EQ(shown.rank, 1);
  CHECK_EQ(shown.ranks, 2);
  CHECK_EQ(figures.Begin(Busy(0), At(1000)), 0);  // ranks do not start at the same time
  CHECK_EQ(shown.since_us, 1000);
  CHECK_EQ(shown.ticket, 17);
  CHECK_EQ(shown.stream, 3);
  CHECK_EQ(shown.kind, static_cast<std::int32_t>(PeerKind::kForward));
  figures.Sent({10, 20});
  figures.End({1, 2}, At(1500));
  figures.Compare({Busy(0), Busy(0)});
  CHECK_EQ(shown.since_us, 0);
  CHECK_EQ(figures.Begin(Busy(0), At(1700)), 200);
  figures.Sent({10, 20});
  figures.End({1, 2}, At(1800));
  CHECK_EQ(shown.exchanges, 2);
  CHECK_EQ(shown.bytes_sent, 20);
  CHECK_EQ(shown.bytes_received, 2);  // without the bytes that the rank sends to itself
  CHECK_EQ(shown.time_us, 600);
}

TEST(AnIdleExchangeTakesNoTime) {
  layout::Exchanges shown{};
  PeerFigures figures(&shown, nullptr, 1, 2);
  figures.Begin(Busy(0, PeerKind::kIdle), At(1000));
  figures.End({1, 2}, At(900000));
  figures.Compare({Busy(5), Busy(900000, PeerKind::kIdle)});
  CHECK_EQ(shown.exchanges, 1);
  CHECK_EQ(shown.time_us, 0);
  CHECK_EQ(shown.waited_us, 0);
  CHECK_EQ(shown.slowest_us, 0);
}

TEST(ARankIsBusyFromTheLastExchangeInWhichNoRankOnlySaidThatItLives) {
  layout::Exchanges shown{};
  PeerFigures figures(&shown, nullptr, 0, 2);
  figures.Begin(Busy(0), At(1000));
  figures.End({1, 2}, At(1100));
  figures.Compare({Busy(0), Busy(0)});
  for (int us = 2000; us < 9000; us += 1000) {
    figures.Begin(Busy(0, PeerKind::kBusy), At(us));
    figures.End({1, 2}, At(us + 100));
    figures.Compare({Busy(0, PeerKind::kBusy), Busy(0)});
  }
  CHECK_EQ(figures.Begin(Busy(0), At(9100)), 8000);
}

TEST(TheOthersWaitForTheRankThatWasBusyForLongest) {
  layout::Exchanges shown{};
  PeerFigures figures(&shown, nullptr, 0, 3);
  figures.Compare({Busy(100), Busy(700), Busy(400)});
  CHECK_EQ(shown.waited_us, 600);  // this rank has waited for rank 1
  CHECK_EQ(shown.slowest, 1);
  CHECK_EQ(shown.slowest_us, 300);  // time that all other ranks have waited only for rank 1
  figures.Compare({Busy(900), Busy(100), Busy(200)});
  CHECK_EQ(shown.waited_us, 600);  // this rank was the last rank
  CHECK_EQ(shown.slowest, 0);
  CHECK_EQ(shown.slowest_us, 700);
  figures.Compare({Busy(100), Busy(800), Busy(200)});
  CHECK_EQ(shown.slowest, 1);
  CHECK_EQ(shown.slowest_us, 900);
}

TEST(FiguresThatNothingReadsAreKeptAside) {
  PeerFigures figures(nullptr, nullptr, 0, 1);
  figures.Begin(Busy(0), At(1));
  figures.End({1}, At(2));
  figures.Compare({Busy(3)});
}
