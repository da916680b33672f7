// Exchanges among ranks that are threads of one process: what each of them is told.
#include "peers/peers.h"

#include <atomic>
#include <future>
#include <thread>

#include "check.h"
#include "rank_transport.h"

using namespace ascpipe;

namespace {

constexpr double kLong = 30.0;
constexpr double kShort = 0.05;

// Keys that say what rank they are of, and notes what came.
class TestKeys : public PeerKeys {
 public:
  explicit TestKeys(int rank) : mine_(Text("keys of ", rank)) {}

  void Pack(const PeerHeader&, std::vector<std::vector<Piece>>* to, std::shared_ptr<const void>*) override {
    for (std::vector<Piece>& pieces : *to) {
      pieces.push_back({mine_.data(), static_cast<std::int64_t>(mine_.size())});
    }
  }
  CoreStatus Unpack(const Received& keys) override {
    for (std::size_t rank = 0; rank < keys.from.size(); ++rank) {
      const Piece& piece = keys.from[rank];
      CHECK_EQ(std::string(static_cast<const char*>(piece.data), static_cast<std::size_t>(piece.bytes)),
               Text("keys of ", rank));
    }
    return refusal;
  }
  bool IsKnown(const PeerHeader& gate) const override { return gate.ticket == known; }

  CoreStatus refusal;
  std::atomic<std::int64_t> known{-1};

 private:
  const std::string mine_;
};

struct Told {
  PeerVerdict verdict;
  std::vector<std::string> rows;  // by rank
};

using Future = std::future<Told>;

PeerHeader Header(PeerKind kind, int stream = 1, std::int64_t ticket = 1) {
  PeerHeader header;
  header.kind = kind;
  if (header.has_batch()) {
    header.stream = stream;
    header.run = 1;
    header.ticket = ticket;
  }
  return header;
}

// Ranks that exchange with each other.
class Ranks {
 public:
  explicit Ranks(int count, double timeout_s = kLong) : Ranks(count, std::vector<double>(count, timeout_s)) {}
  Ranks(int count, const std::vector<double>& timeouts, std::vector<std::string> signatures = {})
      : meeting(std::make_shared<RankMeeting>(count)) {
    signatures.resize(static_cast<std::size_t>(count), "table user\ndim 8");
    for (int rank = 0; rank < count; ++rank) {
      keys.emplace_back(new TestKeys(rank));
      Peers::Settings settings;
      settings.wait_timeout_s = timeouts[static_cast<std::size_t>(rank)];
      settings.signature = signatures[static_cast<std::size_t>(rank)];
      peers.emplace_back(new Peers(std::unique_ptr<Transport>(new RankTransport(meeting, rank)), keys.back().get(),
                                   settings));
    }
  }
  // What Peers is destroyed with.
  ~Ranks() {
    for (auto& one : peers) one.reset();
  }

  Future Send(int rank, PeerRequest request) {
    const auto told = std::make_shared<std::promise<Told>>();
    request.done = [told](const PeerVerdict& verdict, const Received& rows) {
      Told what;
      what.verdict = verdict;
      for (const Piece& piece : rows.from) {
        what.rows.emplace_back(static_cast<const char*>(piece.data), static_cast<std::size_t>(piece.bytes));
      }
      told->set_value(std::move(what));
    };
    peers[static_cast<std::size_t>(rank)]->Exchange(std::move(request));
    return told->get_future();
  }
  Future Send(int rank, const PeerHeader& header) {
    PeerRequest request;
    request.header = header;
    return Send(rank, std::move(request));
  }
  Future Send(int rank, PeerKind kind, int stream = 1, std::int64_t ticket = 1) {
    return Send(rank, Header(kind, stream, ticket));
  }
  // Each rank sends the same: what they are told, and that it is equal.
  VerdictKind All(const PeerHeader& header) {
    std::vector<Future> told;
    for (std::size_t rank = 0; rank < peers.size(); ++rank) told.push_back(Send(static_cast<int>(rank), header));
    const VerdictKind first = told[0].get().verdict.kind;
    for (std::size_t rank = 1; rank < told.size(); ++rank) CHECK(told[rank].get().verdict.kind == first);
    return first;
  }

  std::shared_ptr<RankMeeting> meeting;
  std::vector<std::unique_ptr<TestKeys>> keys;
  std::vector<std::unique_ptr<Peers>> peers;
};

bool Is(Future* told, VerdictKind kind) { return told->get().verdict.kind == kind; }
bool Is(Future told, VerdictKind kind) { return Is(&told, kind); }

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST(RanksThatSayTheSameAreToldTheSame) {
  for (const int count : {1, 2, 3}) {
    Ranks ranks(count);
    CHECK(ranks.All(Header(PeerKind::kGate)) == VerdictKind::kBegin);
    CHECK(ranks.All(Header(PeerKind::kForward)) == VerdictKind::kGo);
    CHECK(ranks.All(Header(PeerKind::kBackward)) == VerdictKind::kApply);
    CHECK(ranks.All(Header(PeerKind::kRead)) == VerdictKind::kRows);
    CHECK(ranks.All(Header(PeerKind::kSave)) == VerdictKind::kSaved);
    CHECK(ranks.All(Header(PeerKind::kChanges)) == VerdictKind::kChanged);
    PeerHeader over = Header(PeerKind::kGate);
    over.exists = false;
    CHECK(ranks.All(over) == VerdictKind::kOver);
    PeerHeader failed = Header(PeerKind::kForward);
    failed.cause = "no memory";
    CHECK(ranks.All(failed) == VerdictKind::kFail);
    CHECK(ranks.All(Header(PeerKind::kLeave)) == VerdictKind::kLeft);
    const PeerFigures figures = ranks.peers[0]->figures();
    CHECK_EQ(figures.exchanges, 9);
    CHECK_EQ(figures.bytes_sent, figures.bytes_received);
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

TEST(AGateOfAnotherStreamIsSentAgainByItselfAfterItsTurn) {
  Ranks ranks(2);
  Future gate = ranks.Send(1, PeerKind::kGate, 2), first = ranks.Send(0, PeerKind::kForward, 1);
  Future other = ranks.Send(1, PeerKind::kForward, 1);
  // The claim of rank 1 either waits in its queue until it is its turn, or is sent first.
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
  // Rank 0 was at its gate before the exchange that brings the keys, rank 1 behind it and claims at once.
  Future gate = ranks.Send(0, PeerKind::kGate, 2, 5);
  Future other = ranks.Send(1, PeerKind::kForward, 1);
  CHECK(Is(&other, VerdictKind::kTurn));  // rank 0 comes first
  ranks.meeting->AwaitWaiting(1);  // its gate was sent again
  ranks.keys[0]->known = 6;
  Future known = ranks.Send(1, PeerKind::kGate, 2, 5);
  CHECK(Is(&gate, VerdictKind::kBegin));
  CHECK(Is(&known, VerdictKind::kBegin));
  Future passes = ranks.Send(0, PeerKind::kGate, 2, 6);
  CHECK(Is(&passes, VerdictKind::kBegin));  // alone
  CHECK_EQ(ranks.meeting->Waiting(), 0);
}

TEST(ARankAtItsGateGoesOnByItselfAfterASave) {
  Ranks ranks(2);
  Future gate = ranks.Send(1, PeerKind::kGate), save = ranks.Send(0, PeerKind::kSave);
  CHECK(Is(&save, VerdictKind::kSaved));
  Future other = ranks.Send(0, PeerKind::kGate);
  CHECK(Is(&other, VerdictKind::kBegin));
  CHECK(Is(&gate, VerdictKind::kBegin));
}

TEST(ARankThatHasClaimedIsToldOfASave) {
  Ranks ranks(2);
  Future forward = ranks.Send(1, PeerKind::kForward), save = ranks.Send(0, PeerKind::kSave);
  CHECK(Is(&save, VerdictKind::kSaved));
  CHECK(Is(&forward, VerdictKind::kSaved));
}

TEST(ARankThatLeavesStaysForASave) {
  Ranks ranks(2);
  std::thread leaves([&ranks] { ranks.peers[1]->Stop(30000); });
  Future save = ranks.Send(0, PeerKind::kSave);
  CHECK(Is(&save, VerdictKind::kSaved));
  ranks.peers[0]->Stop(30000);
  leaves.join();
}

TEST(WhatMeetsARankThatLeavesFails) {
  Ranks ranks(2);
  std::thread leaves([&ranks] { ranks.peers[1]->Stop(30000); });
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
  Future gate = ranks.Send(0, PeerKind::kGate, 2);  // of another thread
  CHECK(ranks.All(Header(PeerKind::kBackward)) == VerdictKind::kApply);
  Future other = ranks.Send(1, PeerKind::kGate, 2);
  CHECK(Is(&gate, VerdictKind::kBegin));
  CHECK(Is(&other, VerdictKind::kBegin));
}

TEST(AnExchangeThatIsGivenUpFailsAtOnceAndTheOthersWhenTheyCome) {
  Ranks ranks(3, {kLong, kShort, kLong});
  const Told told = ranks.Send(1, PeerKind::kGate).get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "E310"));
  CHECK(!ranks.peers[1]->Broken().ok());
  CHECK(Is(ranks.Send(1, PeerKind::kGate), VerdictKind::kFail));  // refused, without an exchange
  // The message of rank 1 is under way: the others meet it, and go on.
  Future zero = ranks.Send(0, PeerKind::kGate), two = ranks.Send(2, PeerKind::kGate);
  CHECK(Is(&zero, VerdictKind::kBegin));
  CHECK(Is(&two, VerdictKind::kBegin));
  // Then it says that it is broken, as often as they exchange.
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
  // Now all are broken: one exchange more, in which all say so, and no other one.
  ranks.meeting->AwaitExchanges(3);
  for (auto& peers : ranks.peers) peers->Stop(0);
  CHECK_EQ(ranks.meeting->Exchanges(), 3);
}

TEST(ATransportThatEndsBreaksTheRankWithItsReason) {
  Ranks ranks(2);
  Future told = ranks.Send(0, PeerKind::kGate);
  ranks.meeting->End(Error(Code::kDataLoss, "rank 1 is gone"));
  CHECK_EQ(told.get().verdict.cause, "rank 1 is gone");
  CHECK_EQ(ranks.peers[0]->Broken().text(), "rank 1 is gone");
  ranks.peers[0]->Stop(30000);  // does not wait
}

TEST(ADamagedMessageBreaksTheRankThatReadsItAndTheOthersLearnIt) {
  Ranks ranks(2);
  ranks.meeting->Damages(1, 0);  // what rank 0 receives in exchange 1
  Future zero = ranks.Send(0, PeerKind::kGate), one = ranks.Send(1, PeerKind::kGate);
  const Told told = zero.get();
  CHECK(told.verdict.kind == VerdictKind::kFail);
  CHECK(Has(told.verdict.cause, "what rank 0 sent is damaged"));
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
  // The gradients that rank 0 owed never came: its tables may not be saved either.
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
  Ranks ranks(2, {kLong, kLong}, {"table user\ndim 8\nseed 1", "table user\ndim 9\nseed 2"});
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  CHECK(Has(zero.get().verdict.cause, "rank 0 has [dim 8] and rank 1 [dim 9]"));
  CHECK(Has(one.get().verdict.cause, "rank 0 has [dim 8] and rank 1 [dim 9]"));
  ranks.peers[1]->SetSignature("table user\ndim 8\nseed 1");
  CHECK(ranks.All(Header(PeerKind::kForward)) == VerdictKind::kGo);
}

TEST(SignaturesThatDifferInHowTheyEndHaveACauseToo) {
  Ranks ranks(2, {kLong, kLong}, {"dim 8", "dim 8\n"});
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  CHECK(!zero.get().verdict.cause.empty());
  CHECK(!one.get().verdict.cause.empty());
}

TEST(RanksWhoseSignaturesDifferHearOfThatAndNotOfTheirKeys) {
  Ranks ranks(2, {kLong, kLong}, {"streams 1", "streams 2"});
  ranks.keys[0]->refusal = Error(Code::kDataLoss, "keys of no stream");
  Future zero = ranks.Send(0, PeerKind::kForward), one = ranks.Send(1, PeerKind::kForward);
  CHECK(Has(zero.get().verdict.cause, "[streams 1]"));
  CHECK(Has(one.get().verdict.cause, "[streams 1]"));
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
  ranks.peers[0]->Stop(0);
  CHECK(Is(&sent, VerdictKind::kFail));
  CHECK(Is(&queued, VerdictKind::kFail));
  ranks.peers[0]->Stop(0);
  ranks.peers[0]->Stop(30000);  // neither waits
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
