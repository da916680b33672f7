// Exchanges that fail because they are given up, ended, damaged, poisoned or stopped.
#include <thread>

#include "peer_ranks.h"

using namespace peer_ranks;

TEST(AnExchangeThatIsGivenUpFailsAtOnceAndTheOthersWhenTheyCome) {
  Ranks ranks(3, {kLong, kShort, kLong});
  const Told told = ranks.Send(1, PeerKind::kGate).get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "E310"));
  CHECK(!ranks.peers[1]->Broken().ok());
  CHECK(Is(ranks.Send(1, PeerKind::kGate), VerdictKind::kFail));  // fails without an exchange
  // The message of rank 1 is in flight.  The other ranks receive it and continue.
  Future zero = ranks.Send(0, PeerKind::kGate), two = ranks.Send(2, PeerKind::kGate);
  CHECK(Is(&zero, VerdictKind::kBegin));
  CHECK(Is(&two, VerdictKind::kBegin));
  // Then rank 1 sends that it is broken in every exchange of the other ranks.
  for (int round = 0; round < 3; ++round) {
    zero = ranks.Send(0, PeerKind::kForward);
    two = ranks.Send(2, PeerKind::kForward);
    const Told failed = zero.get();
    CHECK(failed.verdict.kind == VerdictKind::kFail);
    CHECK(Has(failed.verdict.cause, "rank 1: E310"));
    CHECK(Is(&two, VerdictKind::kFail));
  }
  CHECK(ranks.peers[0]->Broken().ok());
}

TEST(GradientsThatAreGivenUpPoisonTheTablesAndALaterMeetingOfTheOthersToo) {
  Ranks ranks(2, {kShort, kLong});
  CHECK(Is(ranks.Send(0, PeerKind::kBackward), VerdictKind::kPoison));
  CHECK(!ranks.peers[0]->Poisoned().ok());
}

TEST(RanksThatHaveAllGivenUpSayNoMore) {
  Ranks ranks(3, {kShort, kShort, kLong});
  Future zero = ranks.Send(0, PeerKind::kGate), one = ranks.Send(1, PeerKind::kGate);
  CHECK(Is(&zero, VerdictKind::kFail));
  CHECK(Is(&one, VerdictKind::kFail));
  Future two = ranks.Send(2, PeerKind::kGate);
  CHECK(Is(&two, VerdictKind::kBegin));
  ranks.keys[2]->refusal = Error(Code::kDataLoss, "damaged");
  CHECK(Is(ranks.Send(2, PeerKind::kForward), VerdictKind::kFail));
  // Now all ranks are broken.  In one more exchange all ranks send this, and no other exchange follows.
  ranks.meeting->AwaitExchanges(3);
  for (auto& peers : ranks.peers) peers->Stop();
  CHECK_EQ(ranks.meeting->Exchanges(), 3);
}

TEST(ATransportThatEndsBreaksTheRankWithItsReason) {
  Ranks ranks(2);
  Future told = ranks.Send(0, PeerKind::kGate);
  ranks.meeting->End(Error(Code::kDataLoss, "rank 1 is gone"));
  CHECK_EQ(told.get().verdict.cause, "rank 1 is gone");
  CHECK_EQ(ranks.peers[0]->Broken().text(), "rank 1 is gone");
  ranks.peers[0]->Leave(30000);  // does not wait
}

TEST(ADamagedMessageBreaksTheRankThatReadsItAndTheOthersLearnIt) {
  Ranks ranks(2);
  ranks.meeting->Damages(1, 0);  // damages the bytes that rank 0 receives in exchange 1
  Future zero = ranks.Send(0, PeerKind::kGate), one = ranks.Send(1, PeerKind::kGate);
  const Told told = zero.get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "the message of rank 0 is damaged"));
  CHECK(Is(&one, VerdictKind::kBegin));
  const Told later = ranks.Send(1, PeerKind::kForward).get();
  CHECK(later.verdict.kind == VerdictKind::kFail);
  CHECK(Has(later.verdict.cause, "is damaged"));
}

TEST(MessagesOfFewerRanksAreRefused) {
  Ranks ranks(2);
  ranks.meeting->Shortens();
  Future zero = ranks.Send(0, PeerKind::kGate), one = ranks.Send(1, PeerKind::kGate);
  CHECK(Has(zero.get().verdict.cause, "messages of 1 ranks came"));
  CHECK(Is(&one, VerdictKind::kFail));
}

TEST(KeysThatCannotBeReadBreakTheRank) {
  Ranks ranks(2);
  ranks.keys[0]->refusal = Error(Code::kDataLoss, "keys of no stream");
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  CHECK_EQ(zero.get().verdict.cause, "keys of no stream");
  CHECK(Is(&one, VerdictKind::kGo));
  CHECK(Is(ranks.Send(1, PeerKind::kBackward), VerdictKind::kPoison));
  // Rank 0 has never sent its gradients, so its tables may not be saved either.
  CHECK(Is(ranks.Send(0, PeerKind::kBackward), VerdictKind::kPoison));
  CHECK(!ranks.peers[0]->Poisoned().ok());
}

TEST(APoisonedRankRefusesAtOnce) {
  Ranks ranks(2);
  PeerHeader failed = Header(PeerKind::kBackward);
  failed.cause = "its step fails";
  Future zero = ranks.Send(0, failed), one = ranks.Send(1, PeerKind::kBackward);
  CHECK(Is(&zero, VerdictKind::kPoison));
  CHECK(Has(one.get().verdict.cause, "rank 0: its step fails"));
  for (int rank = 0; rank < 2; ++rank) {
    const Told told = ranks.Send(rank, PeerKind::kGate).get();
    CHECK(told.verdict.kind == VerdictKind::kFail);
    CHECK(Has(told.verdict.cause, "E311"));
  }
}

TEST(WhatDiffersInTheSignaturesIsNamed) {
  Ranks ranks(2, {kLong, kLong}, {"dim\t8\nseed\t1", "dim\t9\nseed\t2"});
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  const std::string said = "E313: the ranks differ: dim is 8 on rank 0 and 9 on rank 1. Nothing";
  CHECK(Has(zero.get().verdict.cause, said));
  CHECK(Has(one.get().verdict.cause, said));
  CHECK(Has(ranks.Send(0, PeerKind::kGate).get().verdict.cause, said));  // fails immediately from now on
}

TEST(SignaturesThatDifferInHowTheyEndHaveACauseToo) {
  Ranks ranks(2, {kLong, kLong}, {"dim 8", "dim 8\n"});
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  CHECK(!zero.get().verdict.cause.empty());
  CHECK(!one.get().verdict.cause.empty());
}

TEST(RanksWhoseSignaturesDifferHearOfThatAndNotOfTheirKeys) {
  Ranks ranks(2, {kLong, kLong}, {"streams\t1", "streams\t2"});
  ranks.keys[0]->refusal = Error(Code::kDataLoss, "keys of no stream");
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  CHECK(Has(zero.get().verdict.cause, "streams is 1 on rank 0 and 2 on rank 1"));
  CHECK(Has(one.get().verdict.cause, "streams is 1 on rank 0 and 2 on rank 1"));
}

TEST(StepsThatDifferInWhatMustBeAlikeFailOnAllRanks) {
  Ranks ranks(2);
  std::vector<Future> told;
  for (int round = 0; round < 2; ++round) {
    for (int rank = 0; rank < 2; ++rank) {
      PeerRequest request;
      request.header = Header(PeerKind::kForward, 1, 1 + round);
      request.facts = std::make_shared<std::string>(Text("optimizer's rate\t0.", round == 0 ? 1 : rank));
      told.push_back(ranks.Send(rank, std::move(request)));
    }
  }
  CHECK(Is(&told[0], VerdictKind::kGo));
  CHECK(Is(&told[1], VerdictKind::kGo));
  for (int rank = 0; rank < 2; ++rank) {
    const Told differ = told[static_cast<std::size_t>(2 + rank)].get();
    CHECK(differ.verdict.kind == VerdictKind::kFail);
    CHECK(Has(differ.verdict.cause, "E313: the ranks differ: optimizer's rate is 0.0 on rank 0 and 0.1 on rank 1"));
  }
}

TEST(RanksThatChangedOtherTablesFail) {
  Ranks ranks(2);
  ranks.peers[0]->NoteChange(1);
  ranks.peers[1]->NoteChange(2);
  CHECK(ranks.All(Header(PeerKind::kForward)) == VerdictKind::kFail);
}

TEST(RowsThatNoTransportTakesFailTheStepOfAllRanks) {
  Ranks ranks(2);
  PeerRequest request;
  request.header = Header(PeerKind::kForward);
  request.rows = {{}, {{nullptr, std::int64_t{1} << 40}}};
  Future zero = ranks.Send(0, std::move(request)), one = ranks.Send(1, PeerKind::kForward);
  CHECK(Is(&zero, VerdictKind::kFail));
  CHECK(Has(one.get().verdict.cause, "rank 0: it would send 1099511627776 bytes of rows to one rank"));
  CHECK(ranks.peers[0]->Broken().ok());
}

TEST(AStopEndsAWaitAndWhatIsInTheQueue) {
  Ranks ranks(2);
  Future sent = ranks.Send(0, PeerKind::kForward), queued = ranks.Send(0, PeerKind::kGate, 2);
  ranks.meeting->AwaitWaiting(1);
  ranks.peers[0]->Stop();
  CHECK(Is(&sent, VerdictKind::kFail));
  CHECK(Is(&queued, VerdictKind::kFail));
  ranks.peers[0]->Stop();
  ranks.peers[0]->Leave(30000);  // Stop and Leave do not wait
  CHECK(Is(ranks.Send(0, PeerKind::kForward), VerdictKind::kFail));
}

TEST(AnExchangeMayEndWhenItsRankIsGone) {
  Ranks ranks(2);
  Future sent = ranks.Send(0, PeerKind::kForward);
  ranks.meeting->AwaitWaiting(1);
  ranks.peers[0].reset();
  CHECK(Is(&sent, VerdictKind::kFail));
  Future late = ranks.Send(1, PeerKind::kForward);
  CHECK(Is(&late, VerdictKind::kGo));
}

TEST(ManyStepsOfThreeRanksAreToldTheSame) {
  Ranks ranks(3);
  for (int step = 1; step <= 200; ++step) {
    CHECK(ranks.All(Header(PeerKind::kForward, 1, step)) == VerdictKind::kGo);
    CHECK(ranks.All(Header(PeerKind::kBackward, 1, step)) == VerdictKind::kApply);
  }
}
