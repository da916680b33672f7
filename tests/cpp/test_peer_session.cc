// Decisions of a rank without threads and clocks, event by event.
#include "session_rank.h"

using namespace session_rank;

namespace {

// Brings a rank to the state between GO and the gradients of batch 1.
void BeginStep(Rank* rank, const std::string& facts = "") {
  const int forward = rank->Enter(Header(PeerKind::kForward), true, false, facts);
  rank->Meet(Header(PeerKind::kForward));
  CHECK(rank->Is(forward, VerdictKind::kGo));
  CHECK(rank->session.state() == PeerState::kStep);
}

bool Waits(const PeerMove& move) { return move.kind == Kind::kWait; }
bool WaitsForever(const PeerMove& move) { return Waits(move) && move.until == PeerSession::Time::max(); }

}  // namespace

TEST(BetweenGoAndGradientsARankSendsHeartbeatsAndNothingElse) {
  Rank rank;
  BeginStep(&rank);
  const int gate = rank.Enter(Header(PeerKind::kGate, 1, 2));
  CHECK(Waits(rank.Next()));
  rank.now += kIdle;
  rank.Meet(Header(PeerKind::kGate, 1, 2));
  CHECK(rank.session.state() == PeerState::kStep);
  const int gradients = rank.Enter(Header(PeerKind::kBackward));
  rank.Meet(Header(PeerKind::kBackward));
  CHECK(rank.Is(gradients, VerdictKind::kApply));
  rank.Meet(Header(PeerKind::kGate, 1, 2));
  CHECK(rank.Is(gate, VerdictKind::kBegin));
}

TEST(ARequestThatIsSentAgainKeepsItsPlace) {
  Rank rank;
  rank.Enter(Header(PeerKind::kGate, 1, 5));
  rank.Enter(Header(PeerKind::kGate, 2, 6));
  rank.Meet(Header(PeerKind::kBusy));
  CHECK_EQ(rank.Sends().ticket, 5);
}

TEST(HeartbeatsSayWhyARankHasNothingToExchange) {
  Rank idle, step, asked, zero(0);
  for (Rank* rank : {&idle, &zero}) rank->now += kIdle;
  CHECK(idle.Sends().kind == PeerKind::kIdle);
  CHECK(zero.Sends().kind == PeerKind::kBusy);
  BeginStep(&step);
  step.now += kIdle;
  CHECK(step.Sends().doing == Doing::kComputes);
  asked.Enter(Header(PeerKind::kGate));
  asked.Meet(Ask(AskPhase::kSave));
  asked.now += kIdle;
  const PeerHeader pulse = asked.Sends();
  CHECK(pulse.kind == PeerKind::kBusy && pulse.doing == Doing::kAsked);
}

TEST(UntilItResumesARankSendsNothingAndPutsClaimsAside) {
  for (const AskPhase phase : {AskPhase::kSave, AskPhase::kChange}) {
    Rank rank;
    const int gate = rank.Enter(Header(PeerKind::kGate)), queued = rank.Enter(Header(PeerKind::kForward));
    rank.Meet(Ask(phase, 7));
    CHECK(rank.heard.size() == 1 && rank.heard[0].number == 7);
    CHECK(rank.Is(queued, VerdictKind::kAsked));
    CHECK(rank.Is(rank.Enter(Header(PeerKind::kForward)), VerdictKind::kAsked));
    const int read = rank.Enter(Header(PeerKind::kRead));
    CHECK_EQ(rank.IsTold(read), phase == AskPhase::kChange);
    CHECK(!rank.session.MayClaim(1));
    CHECK(Waits(rank.Next()));
    rank.session.Resume();
    CHECK(rank.session.MayClaim(1));
    CHECK(rank.Sends().kind == PeerKind::kGate);
    CHECK(!rank.IsTold(gate));
  }
}

TEST(TheEndOfOneQuestionLeavesOthersOpen) {
  Rank rank;
  for (const std::int64_t number : {1, 2}) {
    rank.now += kIdle;
    rank.Meet(Ask(AskPhase::kSave, number));
    rank.session.Resume();
  }
  rank.now += kIdle;
  rank.Meet(Ask(AskPhase::kEnd, 2));
  CHECK(rank.session.has_open_question());
  rank.now += kIdle;
  rank.Meet(Ask(AskPhase::kEnd, 1));
  CHECK(!rank.session.has_open_question());
}

TEST(ARankWithoutARequestOfTheNextStreamGivesUp) {
  Rank rank;
  const int claim = rank.Enter(Header(PeerKind::kForward, 2)), gate = rank.Enter(Header(PeerKind::kGate, 2));
  rank.Meet(Header(PeerKind::kForward, 1));
  CHECK(rank.Is(claim, VerdictKind::kTurn));
  CHECK(rank.session.MayClaim(1) && !rank.session.MayClaim(2));
  CHECK(rank.Next().until == rank.now + kTimeout);
  rank.now += kTimeout;
  const PeerMove move = rank.Next();
  CHECK(move.kind == Kind::kGiveUpTurn && move.waits->header.stream == 2);
  rank.GiveUp();
  CHECK(rank.Is(gate, VerdictKind::kFail));
}

TEST(AnExchangeThatIsGivenUpIsToldOnceAndThenTheRankSaysThatItIsBroken) {
  Rank rank;
  const int gate = rank.Enter(Header(PeerKind::kGate)), next = rank.Enter(Header(PeerKind::kGate, 2));
  CHECK(rank.Sends().kind == PeerKind::kGate);
  rank.now += kWarn;
  CHECK(rank.Next().kind == Kind::kSayWait);
  CHECK(rank.Next().until == rank.now + seconds(10));
  rank.around.progressed = rank.now;
  rank.now += kTimeout - seconds(1);
  CHECK(rank.Next().kind == Kind::kSayWait);
  CHECK(Waits(rank.Next()));
  rank.now += seconds(1);
  CHECK(rank.Next().kind == Kind::kGiveUpExchange);
  rank.GiveUp();
  CHECK(rank.Is(gate, VerdictKind::kFail) && rank.Is(next, VerdictKind::kFail));
  CHECK(Waits(rank.Next()));  // the message of the rank is in flight
  rank.EndLate(false);
  for (int round = 0; round < 2; ++round) {
    CHECK(rank.Sends().kind == PeerKind::kBroken);
    CHECK(Waits(rank.Next()));
    rank.EndLate(round == 1);
  }
  CHECK(Waits(rank.Next()));
  CHECK(rank.session.poisoned().ok());
}

TEST(WhereAStepStillRunsAfterAFailureTheEngineIsEndedOnce) {
  Rank rank;
  rank.Enter(Header(PeerKind::kGate));
  CHECK(rank.Sends().kind == PeerKind::kGate);
  rank.Fail(true);
  rank.around.has_steps = true;
  CHECK(Waits(rank.Next()));
  rank.now += kEnds + seconds(1);
  CHECK(rank.Next().kind == Kind::kEndEngine);
  CHECK(WaitsForever(rank.Next()));
}

TEST(AStepThatUsesNoProcessorIsGivenUpIfItHasCollectives) {
  for (const char* facts : {"collective a\tHorovodAllreduce", "variable w\tfloat"}) {
    Rank rank;
    BeginStep(&rank, facts);
    const bool is_watched = rank.session.WatchesStep();
    CHECK_EQ(is_watched, std::string(facts).find("collective") == 0);
    rank.around.processor_ns = 1000000000;
    for (int part = 0; part < 300; ++part) {  // the step computes
      if (rank.Next().kind == Kind::kSend) rank.Conclude({Header(PeerKind::kGate), rank.session.current().header});
      CHECK(!rank.is_busy);
      rank.now += seconds(1);
      rank.around.processor_ns += 500000000;
    }
    bool given_up = false;
    for (int part = 0; part < 70 && !given_up; ++part) {
      const PeerMove move = rank.Next();
      given_up = move.kind == Kind::kGiveUpStep;
      if (move.kind == Kind::kSend) rank.Conclude({Header(PeerKind::kGate), rank.session.current().header});
      rank.now += seconds(1);
    }
    CHECK_EQ(given_up, is_watched);
    if (!given_up) continue;
    rank.GiveUp();
    CHECK(!rank.session.poisoned().ok());
  }
}

TEST(GradientsInLineWhenExchangesEndPoisonTheTables) {
  Rank rank;
  BeginStep(&rank);
  rank.now += kIdle;
  CHECK(rank.Sends().kind == PeerKind::kBusy);
  const int gradients = rank.Enter(Header(PeerKind::kBackward));
  rank.Fail(true);
  CHECK(rank.Is(gradients, VerdictKind::kPoison));
  CHECK(!rank.session.poisoned().ok());
}

TEST(ARankThatHasLeftSendsNoHeartbeats) {
  Rank rank;
  CHECK(rank.session.BeginLeave());
  CHECK(!rank.session.BeginLeave());
  rank.now += kIdle;
  CHECK(WaitsForever(rank.Next()));
  Rank asked;
  asked.now += kIdle;
  asked.Meet(Ask(AskPhase::kSave));
  asked.session.BeginLeave();
  asked.now += kIdle;
  CHECK(asked.Sends().kind == PeerKind::kBusy);  // other ranks wait for the part of this rank
}
