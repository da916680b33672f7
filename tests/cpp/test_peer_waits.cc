// Waits for other ranks: the duration, the rank that is named, and the messages of a rank that has nothing to exchange.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "peer_ranks.h"

using namespace peer_ranks;

namespace {

constexpr double kSoon = 0.001, kLimit = 0.3;
using Clock = AwaitedRanks::Clock;

// Ranks that send a heartbeat every millisecond, or at intervals of `every_s`.
class Pulsing : public Ranks {
 public:
  Pulsing(int count, double timeout_s, double warn_after_s = 1e6, double every_s = kSoon)
      : Ranks(count, std::vector<double>(static_cast<std::size_t>(count), timeout_s), {}, every_s, {}, warn_after_s) {}
};

// Captures stderr while the object exists.
class Stderr {
 public:
  Stderr() : before_(dup(STDERR_FILENO)) {
    CHECK(pipe(ends_) == 0);
    dup2(ends_[1], STDERR_FILENO);
  }
  ~Stderr() { Restore(); }
  std::string Text() {
    Restore();
    std::string text;
    char part[512];
    for (ssize_t length; (length = read(ends_[0], part, sizeof(part))) > 0;) {
      text.append(part, static_cast<std::size_t>(length));
    }
    return text;
  }

 private:
  void Restore() {
    if (before_ < 0) return;
    dup2(before_, STDERR_FILENO);
    close(before_);
    close(ends_[1]);
    before_ = -1;
  }

  int before_, ends_[2];
};

PeerHeader Said(PeerKind kind, Doing doing = Doing::kOther, std::int64_t work = 0) {
  PeerHeader header;
  header.kind = kind;
  header.doing = doing;
  header.work = work;
  header.pid = getpid();
  return header;
}

}  // namespace

TEST(ARankIsWaitedForAsLongAsItGoesOnWithWhatItWasAskedFor) {
  Pulsing ranks(2, kLimit);
  CHECK(Is(ranks.Ask(AskPhase::kSave), VerdictKind::kAsked));
  Future collect = ranks.Ask(AskPhase::kCollect);
  for (int part = 0; part < 12; ++part) {  // four times the limit
    ++ranks.work[1];
    CHECK(collect.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  }
  ranks.Resume(1);
  CHECK(Is(&collect, VerdictKind::kAsked));
}

TEST(ARankThatDoesNotGoOnIsGivenUpByName) {
  Pulsing ranks(3, kLimit);
  CHECK(Is(ranks.Ask(AskPhase::kSave), VerdictKind::kAsked));
  ranks.Resume(1);
  const Told told = ranks.Ask(AskPhase::kCollect).get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "E310"));
  CHECK(Has(told.verdict.cause, "for rank 2, which does its part of a save"));
  CHECK(!Has(told.verdict.cause, "rank 1"));
}

TEST(AStepThatWaitsForAnIdleRankNamesIt) {
  // Rank 2 waits, too.  With the same limit, the wait of rank 2 could end first and be named instead of the wait of
  // rank 0.
  Ranks ranks(3, {kLimit, kLong, kLong}, {}, kSoon, {}, 1e6);
  Future zero = ranks.Send(0, PeerKind::kGate, 1, 7), two = ranks.Send(2, PeerKind::kGate, 1, 7);
  const Told told = zero.get();
  CHECK(Has(told.verdict.cause, "rank 0 takes batch 7 and has waited"));
  CHECK(Has(told.verdict.cause, "for rank 1, which exchanges nothing: its program does something else"));
  CHECK(two.get().verdict.kind == VerdictKind::kFail);
}

TEST(ARankThatComputesIsBusyAndItsGradientsComeNext) {
  Pulsing ranks(2, kLong);
  PeerRequest forward;
  forward.header = Header(PeerKind::kForward);
  forward.has_backward = true;
  Future one = ranks.Send(1, forward);
  CHECK(Is(ranks.Send(0, forward), VerdictKind::kGo));
  CHECK(Is(&one, VerdictKind::kGo));
  Future ask = ranks.Ask(AskPhase::kCollect);  // question of a background save, which waits for the gradients
  ranks.meeting->AwaitExchanges(ranks.meeting->Exchanges() + 5);
  Future zero = ranks.Send(0, PeerKind::kBackward);
  ranks.meeting->AwaitExchanges(ranks.meeting->Exchanges() + 5);
  CHECK(Is(ranks.Send(1, PeerKind::kBackward), VerdictKind::kApply));
  CHECK(Is(&zero, VerdictKind::kApply));
  CHECK(Is(&ask, VerdictKind::kAsked));
}

TEST(ARankThatDoesWhatItWasAskedForIsNotAskedForMore) {
  Pulsing ranks(2, kLong);
  CHECK(Is(ranks.Ask(AskPhase::kSave, "first", 1), VerdictKind::kAsked));
  Future second = ranks.Ask(AskPhase::kSave, "second", 2);
  CHECK(second.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  ranks.Resume(1);
  CHECK(Is(&second, VerdictKind::kAsked));
  CHECK_EQ(ranks.Asked().second.text, "first");
  CHECK_EQ(ranks.Asked().second.number, 2);
}

TEST(AStepThatWaitsInACollectiveOfTheProgramIsGivenUpByItsRank) {
  for (const char* facts : {"collective a\tHorovodAllreduce", "variable w\tfloat"}) {
    Stderr out;
    // Frequent heartbeats alone may use a quarter of a processor on a busy machine, which counts as progress.
    Pulsing ranks(2, kLimit, 1e6, 0.1);
    std::vector<Future> told;
    for (int rank = 0; rank < 2; ++rank) {
      PeerRequest forward;
      forward.header = Header(PeerKind::kForward, 1, 7);
      forward.has_backward = true;
      forward.facts = std::make_shared<std::string>(facts);
      told.push_back(ranks.Send(rank, std::move(forward)));
    }
    for (Future& one : told) CHECK(Is(&one, VerdictKind::kGo));
    const bool has_collective = std::string(facts).find("collective") == 0;
    const auto until = Clock::now() + std::chrono::duration<double>(has_collective ? kLong : 3 * kLimit);
    while (ranks.peers[0]->Broken().ok() && Clock::now() < until) {
      ranks.meeting->AwaitExchanges(ranks.meeting->Exchanges() + 1);
    }
    CHECK_EQ(!ranks.peers[0]->Broken().ok(), has_collective);
    if (has_collective) {
      CHECK(Has(ranks.peers[0]->Broken().text(), "E310: rank 0 has computed batch 7 for 0 s"));
      CHECK(Has(ranks.peers[0]->Broken().text(), "a waits for other ranks"));
      CHECK(!ranks.peers[0]->Poisoned().ok());
    }
  }
}

TEST(WhereAStepDoesNotEndAfterAFailureTheEngineIsEnded) {
  Ranks ranks(2, {kShort, kLong});
  ranks.has_steps = true;
  CHECK(Is(ranks.Send(0, PeerKind::kGate), VerdictKind::kFail));
  ranks.meeting->AwaitEnd();
}

TEST(AWaitThatTakesLongIsToldOnStderr) {
  Stderr out;
  Pulsing ranks(2, kLong, 0.05);
  Future zero = ranks.Send(0, PeerKind::kGate, 1, 41);
  CHECK(zero.wait_for(std::chrono::milliseconds(300)) == std::future_status::timeout);
  CHECK(Is(ranks.Send(1, PeerKind::kGate, 1, 41), VerdictKind::kBegin));
  CHECK(Is(&zero, VerdictKind::kBegin));
  const std::string text = out.Text();
  CHECK(Has(text, "ascpipe: rank 0 takes batch 41 and has waited 0 s for rank 1, which exchanges nothing"));
  CHECK_EQ(text.find('\n'), text.size() - 1);  // only one line
}

TEST(ARankThatSaysNothingIsNamedWhereItIsTheOnlyOther) {
  Ranks ranks(2, {kLimit, kLong});
  const Told told = ranks.Send(0, PeerKind::kGate).get();
  CHECK(Has(told.verdict.cause, "for rank 1, which has not begun to exchange"));
}

TEST(OfSeveralRanksThatSayNothingThoseAreNamedThatAreStopped) {
  const Clock::time_point now = Clock::now();
  AwaitedRanks awaited(0, 3, now);
  CHECK(Has(awaited.Names(now), "one of the ranks 1, 2, which does not answer"));
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  PeerHeader of_child = Said(PeerKind::kGate);
  of_child.pid = child;
  awaited.Hear({Said(PeerKind::kGate), Said(PeerKind::kGate), of_child}, now);
  const Clock::time_point later = now + std::chrono::seconds(60);
  CHECK_EQ(awaited.Lost(), "");
  CHECK(Has(awaited.Names(later), "one of the ranks 1, 2"));
  kill(child, SIGSTOP);
  int status = 0;
  CHECK(waitpid(child, &status, WUNTRACED) == child);
  CHECK_EQ(awaited.Names(later), Text("rank 2, whose process (pid ", child, ") is stopped by a signal"));
  kill(child, SIGKILL);
  CHECK(waitpid(child, &status, 0) == child);
  CHECK_EQ(awaited.Lost(), Text("rank 2, whose process (pid ", child, ") has ended"));
}

TEST(TheRankThatIsAwaitedHasNothingToExchange) {
  const Clock::time_point now = Clock::now();
  AwaitedRanks awaited(1, 4, now);
  const PeerHeader waits = Said(PeerKind::kGate);
  awaited.Hear({Said(PeerKind::kBusy, Doing::kAsked), waits, Said(PeerKind::kIdle), waits}, now);
  CHECK_EQ(awaited.Names(now), "rank 0, which does its part of a save, restore or change of tables; rank 2, which "
                               "exchanges nothing: its program does something else");
}

TEST(WorkOfBusyRanksIsProgress) {
  const Clock::time_point begun = Clock::now();
  const auto at = [begun](int s) { return begun + std::chrono::seconds(s); };
  AwaitedRanks awaited(0, 2, begun);
  awaited.Hear({Said(PeerKind::kGate), Said(PeerKind::kBusy, Doing::kAsked, 5)}, at(1));
  CHECK(awaited.progressed() == begun);  // the first value of rank 1
  awaited.Hear({Said(PeerKind::kGate), Said(PeerKind::kBusy, Doing::kAsked, 6)}, at(2));
  CHECK(awaited.progressed() == at(2));
  awaited.Hear({Said(PeerKind::kGate), Said(PeerKind::kBusy, Doing::kAsked, 6)}, at(3));
  CHECK(awaited.progressed() == at(2));
  awaited.Hear({Said(PeerKind::kGate), Said(PeerKind::kGate, Doing::kOther, 7)}, at(4));  // work of a background save
  CHECK(awaited.progressed() == at(2));
  CHECK(awaited.worked() == at(4));
  CHECK(awaited.worked(1) == at(4));
  awaited.Hear({Said(PeerKind::kBusy, Doing::kAsked, 1), Said(PeerKind::kGate, Doing::kOther, 7)}, at(5));
  CHECK(awaited.progressed() == at(2));  // work of this rank, for which other ranks wait
  CHECK(awaited.worked() == at(5));
}
