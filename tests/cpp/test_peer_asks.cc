// Questions of rank 0 to the other ranks between two steps, and messages of ranks that have nothing to exchange.
#include <thread>

#include "peer_ranks.h"

using namespace peer_ranks;

namespace {

constexpr double kSoon = 0.001;

// Returns true if the next question has this rank, phase and text.
bool IsAsked(Ranks* ranks, int rank, AskPhase phase, const std::string& text) {
  const std::pair<int, PeerAsk> asked = ranks->Asked();
  return asked.first == rank && asked.second.phase == phase && asked.second.text == text;
}

}  // namespace

TEST(ARankAtItsGateDoesWhatIsAskedForAndGoesOnByItself) {
  Ranks ranks(2);
  Future gate = ranks.Send(1, PeerKind::kGate), ask = ranks.Ask(AskPhase::kSave, "save 7");
  CHECK(Is(&ask, VerdictKind::kAsked));
  CHECK(IsAsked(&ranks, 1, AskPhase::kSave, "save 7"));
  CHECK(!ranks.peers[1]->MayClaim(1));
  Future other = ranks.Send(0, PeerKind::kGate);
  ranks.meeting->AwaitWaiting(1);  // rank 0 waits; rank 1 sends nothing before it resumes
  ranks.Resume(1);
  CHECK(ranks.peers[1]->MayClaim(1));
  CHECK(Is(&other, VerdictKind::kBegin));
  CHECK(Is(&gate, VerdictKind::kBegin));
}

TEST(AClaimIsPutAsideForWhatIsAskedForAlsoOneThatComesLater) {
  Ranks ranks(2);
  Future forward = ranks.Send(1, PeerKind::kForward), ask = ranks.Ask(AskPhase::kSave);
  CHECK(Is(&ask, VerdictKind::kAsked));
  CHECK(Is(&forward, VerdictKind::kAsked));
  CHECK(Is(ranks.Send(1, PeerKind::kForward, 2), VerdictKind::kAsked));
}

TEST(AStepThatFailsWhileItsClaimIsPutAsideIsToldAfterWhatIsAskedFor) {
  Ranks ranks(2);
  Future claim = ranks.Send(1, PeerKind::kForward), ask = ranks.Ask(AskPhase::kSave);
  CHECK(Is(&ask, VerdictKind::kAsked));
  CHECK(Is(&claim, VerdictKind::kAsked));
  PeerHeader failed = Header(PeerKind::kForward);
  failed.cause = "its step was cancelled";
  Future tells = ranks.Send(1, failed);
  Future waits = ranks.Send(0, PeerKind::kForward);
  ranks.Resume(1);
  CHECK(Is(&waits, VerdictKind::kFail));
  CHECK(Is(&tells, VerdictKind::kFail));
}

TEST(AnEvaluationHasToYieldToAChangeOfTablesAlone) {
  Ranks ranks(2);
  Future read = ranks.Send(1, PeerKind::kRead), ask = ranks.Ask(AskPhase::kSave);
  CHECK(Is(&ask, VerdictKind::kAsked));
  ranks.Resume(1);
  Future other = ranks.Send(0, PeerKind::kRead);
  CHECK(Is(&read, VerdictKind::kRows));
  CHECK(Is(&other, VerdictKind::kRows));
  Future again = ranks.Send(1, PeerKind::kRead), change = ranks.Ask(AskPhase::kChange);
  CHECK(Is(&change, VerdictKind::kAsked));
  CHECK(Is(&again, VerdictKind::kAsked));
  CHECK(Is(ranks.Send(1, PeerKind::kRead, 2), VerdictKind::kAsked));
}

TEST(AnswersComeWithTheNextExchangeWhateverItIsFor) {
  Ranks ranks(3);
  Future one = ranks.Send(1, PeerKind::kGate), two = ranks.Send(2, PeerKind::kGate);
  CHECK(Is(ranks.Ask(AskPhase::kSave), VerdictKind::kAsked));
  ranks.peers[2]->Answer("first");
  ranks.peers[2]->Answer("second");
  ranks.Resume(1);
  ranks.Resume(2);
  CHECK(Is(ranks.Ask(AskPhase::kCollect), VerdictKind::kAsked));
  CHECK_EQ(ranks.peers[0]->TakeAnswers(1), "");
  CHECK_EQ(ranks.peers[0]->TakeAnswers(2), "first\nsecond\n");
  ranks.peers[1]->Answer("late");
  Future zero = ranks.Send(0, PeerKind::kGate);
  CHECK(Is(&zero, VerdictKind::kBegin));
  CHECK(Is(&one, VerdictKind::kBegin));
  CHECK(Is(&two, VerdictKind::kBegin));
  CHECK(ranks.All(Header(PeerKind::kForward)) == VerdictKind::kGo);
  CHECK_EQ(ranks.peers[0]->TakeAnswers(1), "late\n");
  CHECK_EQ(ranks.peers[0]->TakeAnswers(2), "");
}

TEST(ARankThatLeavesStaysUntilWhatWasAskedForHasEnded) {
  Ranks ranks(2);
  std::thread leaves([&ranks] { ranks.peers[1]->Leave(50); });
  CHECK(Is(ranks.Ask(AskPhase::kSave), VerdictKind::kAsked));
  ranks.peers[1]->Answer("written");
  ranks.Resume(1);
  CHECK(Is(ranks.Ask(AskPhase::kCollect), VerdictKind::kAsked));
  CHECK_EQ(ranks.peers[0]->TakeAnswers(1), "written\n");
  CHECK(Is(ranks.Ask(AskPhase::kEnd, "saved"), VerdictKind::kAsked));
  CHECK(IsAsked(&ranks, 1, AskPhase::kSave, ""));
  CHECK(IsAsked(&ranks, 1, AskPhase::kCollect, ""));
  CHECK(IsAsked(&ranks, 1, AskPhase::kEnd, "saved"));
  ranks.peers[0]->Leave(30000);
  leaves.join();
}

TEST(ARankThatLeavesStaysAlthoughAnotherQuestionHasEnded) {
  Ranks ranks(2);
  Future gate = ranks.Send(1, PeerKind::kGate);
  CHECK(Is(ranks.Ask(AskPhase::kSave, "", 1), VerdictKind::kAsked));
  ranks.Resume(1);
  CHECK(Is(ranks.Ask(AskPhase::kChange, "", 2), VerdictKind::kAsked));
  ranks.Resume(1);
  CHECK(Is(ranks.Ask(AskPhase::kEnd, "", 2), VerdictKind::kAsked));
  CHECK(Is(ranks.Send(0, PeerKind::kGate), VerdictKind::kBegin));
  CHECK(Is(&gate, VerdictKind::kBegin));
  std::future<void> leaves = std::async(std::launch::async, [&ranks] { ranks.peers[1]->Leave(50); });
  // Four times the timeout of Leave.
  CHECK(leaves.wait_for(std::chrono::milliseconds(200)) == std::future_status::timeout);
  CHECK(Is(ranks.Ask(AskPhase::kEnd, "", 1), VerdictKind::kAsked));
  leaves.get();
}

TEST(ARankThatLeavesGivesUpASaveWithWhichNoRankGoesOn) {
  Ranks ranks(2, {kLong, kShort});
  Future gate = ranks.Send(1, PeerKind::kGate);
  CHECK(Is(ranks.Ask(AskPhase::kSave), VerdictKind::kAsked));
  ranks.Resume(1);
  CHECK(Is(ranks.Send(0, PeerKind::kGate), VerdictKind::kBegin));
  CHECK(Is(&gate, VerdictKind::kBegin));
  ranks.peers[1]->Leave(50);
}

TEST(AnIdleRankHearsWhatIsAskedFor) {
  Ranks ranks(3, {kLong, kLong, kLong}, {}, kSoon);
  ranks.meeting->AwaitWaiting(2);
  CHECK(Is(ranks.Ask(AskPhase::kChange, "evict"), VerdictKind::kAsked));
  std::vector<bool> asked(3);
  for (int i = 0; i < 2; ++i) {
    const std::pair<int, PeerAsk> one = ranks.Asked();
    CHECK_EQ(one.second.text, "evict");
    asked[static_cast<std::size_t>(one.first)] = true;
  }
  CHECK(asked[1] && asked[2]);
  for (int rank : {1, 2}) {
    ranks.peers[static_cast<std::size_t>(rank)]->Answer("done");
    ranks.Resume(rank);
  }
  CHECK(Is(ranks.Ask(AskPhase::kEnd), VerdictKind::kAsked));
  CHECK_EQ(ranks.peers[0]->TakeAnswers(1) + ranks.peers[0]->TakeAnswers(2), "done\ndone\n");
}

TEST(WhatMeetsAnIdleRankIsSaidAgain) {
  Ranks ranks(2, {kLong, kLong}, {}, kSoon);
  for (int ticket = 1; ticket < 20; ++ticket) {
    ranks.meeting->AwaitWaiting(1);
    Future zero = ranks.Send(0, PeerKind::kGate, 1, ticket);
    Future one = ranks.Send(1, PeerKind::kGate, 1, ticket);
    CHECK(Is(&zero, VerdictKind::kBegin));
    CHECK(Is(&one, VerdictKind::kBegin));
  }
}

TEST(AnIdleRankDoesNotHearOfAFailureInPlaceOfItsStep) {
  Ranks ranks(2, {kLong, kLong}, {}, kSoon);
  ranks.meeting->AwaitWaiting(1);
  PeerHeader failed = Header(PeerKind::kForward);
  failed.cause = "no memory";
  Future zero = ranks.Send(0, failed);
  CHECK(zero.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  const Told told = ranks.Send(1, PeerKind::kForward).get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "rank 0: no memory"));
  CHECK(Is(&zero, VerdictKind::kFail));
}

TEST(AnIdleRankThatIsNotAnsweredGivesUpWhatItWouldExchange) {
  Ranks ranks(2, {kLong, kShort}, {}, kSoon);
  ranks.meeting->AwaitWaiting(1);  // rank 1 is idle, which has no timeout
  const Told told = ranks.Send(1, PeerKind::kGate, 1, 5).get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "rank 1 takes batch 5 and has waited"));
  CHECK(
      Is(ranks.Send(0, PeerKind::kForward, 1, 5), VerdictKind::kFail));  // the last message of rank 1 may be in flight
}

TEST(ABrokenRankIsHeardAlthoughAnotherOneIsIdle) {
  Ranks ranks(3, {kLong, kLong, kShort}, {}, kSoon);
  CHECK(Is(ranks.Send(2, PeerKind::kForward), VerdictKind::kFail));  // rank 2 gives up
  CHECK(Is(ranks.Send(0, PeerKind::kForward), VerdictKind::kFail));
}
