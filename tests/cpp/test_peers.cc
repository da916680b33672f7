// Exchanges between ranks that are threads of one process, and the verdicts of the ranks.
#include <thread>

#include "core/atomics.h"
#include "peer_ranks.h"

using namespace peer_ranks;

TEST(RanksThatSayTheSameAreToldTheSame) {
  for (const int count : {1, 2, 3}) {
    Ranks ranks(count);
    CHECK(ranks.All(Header(PeerKind::kGate)) == VerdictKind::kBegin);
    CHECK(ranks.All(Header(PeerKind::kForward)) == VerdictKind::kGo);
    CHECK(ranks.All(Header(PeerKind::kBackward)) == VerdictKind::kApply);
    CHECK(ranks.All(Header(PeerKind::kRead)) == VerdictKind::kRows);
    PeerHeader over = Header(PeerKind::kGate);
    over.exists = false;
    CHECK(ranks.All(over) == VerdictKind::kOver);
    PeerHeader failed = Header(PeerKind::kForward);
    failed.cause = "no memory";
    CHECK(ranks.All(failed) == VerdictKind::kFail);
    CHECK(ranks.All(Header(PeerKind::kLeave)) == VerdictKind::kLeft);
    const layout::Exchanges& figures = ranks.figures[0];
    CHECK_EQ(LoadAcquire(&figures.ranks), count);
    CHECK_EQ(LoadAcquire(&figures.exchanges), 7);
    CHECK_EQ(LoadAcquire(&figures.bytes_sent), LoadAcquire(&figures.bytes_received));
  }
}

TEST(RowsComeFromEachRankToEachOtherOne) {
  Ranks ranks(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Future> told;
    for (int from = 0; from < 3; ++from) {
      const auto texts = std::make_shared<std::vector<std::string>>();
      PeerRequest request;
      request.header = Header(PeerKind::kForward, 1, round + 1);
      request.rows.resize(3);
      for (int to = 0; to < 3; ++to) texts->push_back(std::string(static_cast<std::size_t>(round * 37), '.'));
      for (std::size_t to = 0; to < 3; ++to) {
        (*texts)[to] += Text(from, " to ", to);
        const std::string& text = (*texts)[to];
        request.rows[to] = {{text.data(), 1}, {text.data() + 1, static_cast<std::int64_t>(text.size()) - 1}};
      }
      request.keeps = texts;
      told.push_back(ranks.Send(from, std::move(request)));
    }
    for (int to = 0; to < 3; ++to) {
      const Told what = told[static_cast<std::size_t>(to)].get();
      CHECK(what.verdict.kind == VerdictKind::kGo);
      for (std::size_t from = 0; from < 3; ++from) {
        CHECK_EQ(what.rows[from], std::string(static_cast<std::size_t>(round * 37), '.') + Text(from, " to ", to));
      }
    }
  }
}

TEST(OfTwoStreamsThatOfRankZeroComesFirstAndClaimsOfTheOtherArePutAside) {
  Ranks ranks(2);
  Future first = ranks.Send(0, PeerKind::kForward, 1), claim = ranks.Send(1, PeerKind::kForward, 2);
  CHECK(Is(&claim, VerdictKind::kTurn));
  Future other = ranks.Send(1, PeerKind::kForward, 1);
  CHECK(Is(&first, VerdictKind::kGo));
  CHECK(Is(&other, VerdictKind::kGo));
  CHECK(ranks.All(Header(PeerKind::kBackward, 1)) == VerdictKind::kApply);
  CHECK(ranks.All(Header(PeerKind::kForward, 2)) == VerdictKind::kGo);
}

TEST(AClaimThatComesWhenAnotherStreamIsNextIsPutAsideAtOnce) {
  Ranks ranks(2);
  for (const PeerKind kind : {PeerKind::kForward, PeerKind::kRead}) {
    Future first = ranks.Send(0, PeerKind::kForward, 1), claim = ranks.Send(1, PeerKind::kForward, 2);
    CHECK(Is(&claim, VerdictKind::kTurn));
    Future late = ranks.Send(1, kind, 3);
    CHECK(Is(&late, VerdictKind::kTurn));  // this request holds the lease that stream 1 needs
    Future other = ranks.Send(1, PeerKind::kForward, 1);
    CHECK(Is(&first, VerdictKind::kGo));
    CHECK(Is(&other, VerdictKind::kGo));
  }
}

TEST(AGateOfAnotherStreamIsSentAgainByItselfAfterItsTurn) {
  Ranks ranks(2);
  Future gate = ranks.Send(1, PeerKind::kGate, 2), first = ranks.Send(0, PeerKind::kForward, 1);
  Future other = ranks.Send(1, PeerKind::kForward, 1);
  // The claim of rank 1 either waits in its queue until its turn, or is sent first.
  CHECK(Is(&first, VerdictKind::kGo));
  CHECK(Is(&other, VerdictKind::kGo));
  Future last = ranks.Send(0, PeerKind::kGate, 2);
  CHECK(Is(&last, VerdictKind::kBegin));
  CHECK(Is(&gate, VerdictKind::kBegin));
}

TEST(ARankWhoseTurnNeverComesGivesUpAndTheOthersLearnIt) {
  Ranks ranks(2, {kLong, kShort});
  Future first = ranks.Send(0, PeerKind::kForward, 1), gate = ranks.Send(1, PeerKind::kGate, 2);
  const Told told = gate.get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "which rank 1 has not begun"));
  CHECK(Is(&first, VerdictKind::kFail));
  CHECK(!ranks.peers[1]->Broken().ok());
  CHECK(ranks.peers[0]->Broken().ok());
}

TEST(AGateWhoseKeysCameWithAnExchangeOfAnotherThreadIsNotSent) {
  Ranks ranks(2);
  // Rank 0 sent its gate before the exchange that brings the keys.  Rank 1 claims immediately after this exchange.
  Future gate = ranks.Send(0, PeerKind::kGate, 2, 5);
  Future other = ranks.Send(1, PeerKind::kForward, 1);
  CHECK(Is(&other, VerdictKind::kTurn));  // the stream of rank 0 is next
  ranks.meeting->AwaitWaiting(1);         // the gate of rank 0 was sent again
  ranks.keys[0]->known = 6;
  Future known = ranks.Send(1, PeerKind::kGate, 2, 5);
  CHECK(Is(&gate, VerdictKind::kBegin));
  CHECK(Is(&known, VerdictKind::kBegin));
  Future passes = ranks.Send(0, PeerKind::kGate, 2, 6);
  CHECK(Is(&passes, VerdictKind::kBegin));  // without an exchange
  CHECK_EQ(ranks.meeting->Waiting(), 0);
}

TEST(WhatMeetsARankThatLeavesFails) {
  Ranks ranks(2);
  std::thread leaves([&ranks] { ranks.peers[1]->Leave(30000); });
  const Told told = ranks.Send(0, PeerKind::kGate).get();
  leaves.join();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "rank 1 has ended"));
  CHECK(ranks.peers[0]->Broken().ok());
}

TEST(NothingIsSentBetweenAStepThatHasBegunAndItsGradients) {
  Ranks ranks(2);
  std::vector<Future> told;
  for (int rank = 0; rank < 2; ++rank) {
    PeerRequest request;
    request.header = Header(PeerKind::kForward);
    request.has_backward = true;
    told.push_back(ranks.Send(rank, std::move(request)));
  }
  for (Future& one : told) CHECK(Is(&one, VerdictKind::kGo));
  Future gate = ranks.Send(0, PeerKind::kGate, 2);  // gate of another thread
  CHECK(ranks.All(Header(PeerKind::kBackward)) == VerdictKind::kApply);
  Future other = ranks.Send(1, PeerKind::kGate, 2);
  CHECK(Is(&gate, VerdictKind::kBegin));
  CHECK(Is(&other, VerdictKind::kBegin));
}
