// Decisions of a rank without threads and clocks: random events, and ranks that exchange in lockstep.
#include <random>
#include <set>

#include "session_rank.h"

using namespace session_rank;

namespace {

// Random events of one rank.  The invariants are checked after each event.
class RandomEvents {
 public:
  explicit RandomEvents(unsigned seed) : numbers_(seed) {
    rank_.around.has_steps = Below(2) == 0;
    rank_.on_told = [this](int id, const PeerVerdict& verdict) {
      CHECK_EQ(rank_.told[id].size(), 1u);  // each request gets only one verdict
      if (verdict.kind == VerdictKind::kPoison) CHECK(!rank_.session.poisoned().ok());
    };
  }

  void Run() {
    for (int event = 0; event < 80; ++event) {
      One();
      if (rank_.session.is_broken()) CHECK(!rank_.session.broken().ok());
      CHECK(!rank_.session.is_late() || rank_.session.is_broken());
      if (rank_.session.is_broken()) CheckAllAreTold();
    }
    if (Below(2) == 0) LetTimePass();
    rank_.session.Stop();
    for (Kind kind = rank_.Next().kind; kind != Kind::kEnd; kind = rank_.Next().kind) {
      CHECK(kind == Kind::kGiveUpExchange);
      rank_.GiveUp();
    }
    rank_.CarryOut(rank_.session.Finish());
    CheckAllAreTold();
    CHECK(rank_.IsTold(rank_.Enter(RandomHeader())));
  }

 private:
  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(numbers_); }

  PeerHeader RandomHeader() {
    const PeerKind kinds[] = {PeerKind::kGate,     PeerKind::kForward, PeerKind::kForward,
                              PeerKind::kBackward, PeerKind::kRead,    PeerKind::kIdle,
                              PeerKind::kBusy,     PeerKind::kAsk,     PeerKind::kLeave};
    PeerHeader header = Header(kinds[Below(9)], 1 + Below(2), 1 + Below(2));
    header.exists = Below(8) != 0;
    header.phase = static_cast<AskPhase>(Below(4));
    if (Below(10) == 0) header.cause = "its step fails";
    return header;
  }

  void One() {
    rank_.now += std::chrono::milliseconds(Below(3) == 0 ? Below(20000) : Below(600));
    const bool refuses = rank_.session.is_broken() || !rank_.session.poisoned().ok();
    switch (Below(6)) {
      case 0:
      case 1: {
        PeerHeader header = RandomHeader();
        if (header.kind == PeerKind::kBusy) header.kind = PeerKind::kIdle;
        // Gradients are sent once, after GO, as by the steps of a program.
        if (header.kind == PeerKind::kBackward && rank_.session.state() != PeerState::kStep) return;
        if (header.kind == PeerKind::kIdle) looks_.insert(rank_.entered);
        const int id = rank_.Enter(header, Below(2) == 0, Below(4) == 0);
        if (refuses) CHECK(rank_.IsTold(id) && rank_.told[id][0].failed());
        return;
      }
      case 2:
        if (Below(4) == 0) rank_.around.progressed = rank_.now;
        if (Below(4) == 0) rank_.session.Resume();
        if (Below(40) == 0) rank_.session.BeginLeave();
        return;
      default:
        Below(3) == 0 && rank_.is_busy ? EndExchange() : MakeMove();
    }
  }

  void MakeMove() {
    const PeerState state = rank_.session.state();
    const bool was_poisoned = !rank_.session.poisoned().ok();
    const PeerMove move = rank_.Next();
    switch (move.kind) {
      case Kind::kSend:
        CHECK(!was_poisoned || state == PeerState::kBroken);
        CheckMayBeSent(state, rank_.session.current().header);
        if (rank_.session.current().header.kind == PeerKind::kGate && Below(4) == 0) {
          rank_.is_busy = false;
          rank_.CarryOut(rank_.session.PassGate());
        }
        return;
      case Kind::kWait:
        CHECK(move.until > rank_.now);
        break;
      case Kind::kSayWait:
        CHECK(rank_.Next().kind != Kind::kSayWait);
        break;
      case Kind::kEndEngine:
        CHECK(rank_.session.is_broken());
        break;
      case Kind::kEnd:
        CHECK(false);
        break;
      default:
        rank_.GiveUp();
    }
  }

  void CheckMayBeSent(PeerState state, const PeerHeader& header) {
    const PeerKind kind = header.kind;
    switch (state) {
      case PeerState::kFree:
        CHECK(kind != PeerKind::kBroken);
        break;
      case PeerState::kTurn:
        CHECK(!header.has_batch() || header.stream == rank_.session.turn());
        break;
      case PeerState::kStep:
        CHECK(kind == PeerKind::kBackward || kind == PeerKind::kLeave || kind == PeerKind::kBusy);
        break;
      case PeerState::kSaves:
      case PeerState::kChanges:
        CHECK(kind == PeerKind::kBusy && header.doing == Doing::kAsked);
        break;
      case PeerState::kBroken:
        CHECK(kind == PeerKind::kBroken && !header.cause.empty());
        break;
      case PeerState::kMute:
        CHECK(false);
    }
  }

  void EndExchange() {
    if (rank_.session.is_late()) return rank_.EndLate(Below(4) == 0);
    if (Below(20) == 0) return rank_.Fail(Below(2) == 0);
    const PeerHeader mine = rank_.session.current().header;
    std::vector<PeerHeader> headers(3, mine);
    for (PeerHeader& header : headers) {
      if (Below(4) == 0) header = RandomHeader();
    }
    headers[static_cast<std::size_t>(number_)] = mine;
    const bool paused = rank_.session.state() == PeerState::kSaves || rank_.session.state() == PeerState::kChanges;
    const PeerState before = rank_.session.state();
    rank_.Conclude(headers);
    if (paused) CHECK(rank_.session.state() == before);  // until the rank has done its part
  }

  // No other rank answers.  Each wait for other ranks must end.
  void LetTimePass() {
    for (int move = 0; move < 500 && !rank_.session.is_broken(); ++move) {
      const PeerMove next = rank_.Next();
      if (next.kind == Kind::kWait && next.until == PeerSession::Time::max()) break;
      if (next.kind == Kind::kWait) rank_.now = next.until;
      const bool gives_up = next.kind == Kind::kGiveUpExchange || next.kind == Kind::kGiveUpTurn;
      if (gives_up) rank_.GiveUp();
    }
    const PeerState state = rank_.session.state();
    const bool for_others = state != PeerState::kStep && state != PeerState::kSaves && state != PeerState::kChanges;
    if (for_others) CheckAllAreTold(looks_);
  }

  void CheckAllAreTold(const std::set<int>& but = {}) {
    for (int id = 0; id < rank_.entered; ++id) {
      if (but.count(id) == 0) CHECK_EQ(rank_.told[id].size(), 1u);
    }
  }

  std::mt19937 numbers_;
  const int number_ = Below(3);
  Rank rank_{number_};
  std::set<int> looks_;  // heartbeats that the program has requested; they have no timeout
};

}  // namespace

TEST(WhateverHappensEachRequestIsToldOnceAndOnlyWhatItsStateAllowsIsSent) {
  for (unsigned seed = 0; seed < 4000; ++seed) RandomEvents(seed).Run();
}

namespace {

// Ranks whose exchanges meet.  Each rank has a thread that trains stream 1 and a thread that evaluates stream 2.  Rank
// 0 requests saves.  All ranks must execute the same actions in the same order.
class Lockstep {
 public:
  static constexpr int kBatches = 6;

  Lockstep(int count, unsigned seed) : numbers_(seed), programs_(static_cast<std::size_t>(count)) {
    for (int number = 0; number < count; ++number) {
      ranks_.emplace_back(new Rank(number));
      ranks_.back()->on_told = [this, number](int id, const PeerVerdict& verdict) { Hear(number, id, verdict); };
    }
  }

  void Run() {
    for (int move = 0; move < 100000 && !AllEnded(); ++move) {
      const int number = Below(static_cast<int>(ranks_.size()));
      Below(2) == 0 ? MoveProgram(number) : MoveRank(number);
      if (Below(50) == 0) {
        for (auto& rank : ranks_) rank->now += std::chrono::milliseconds(Below(1500));
      }
    }
    CHECK(AllEnded());
    for (std::size_t number = 1; number < programs_.size(); ++number) CHECK_EQ(programs_[number].log, programs_[0].log);
    CHECK(check::Has(programs_[0].log, "save 2 "));
  }

 private:
  enum class Phase { kBegins, kWaits, kClaims, kComputes };
  struct Thread {
    Phase phase = Phase::kBegins;
    int batch = 1;
  };
  struct Program {
    Thread threads[2];
    int lease = -1;              // the thread that holds the lease
    std::map<int, int> sent_by;  // thread by request; 2 for a question
    std::string log;
  };

  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(numbers_); }

  bool AllEnded() const {
    for (const Program& program : programs_) {
      for (const Thread& thread : program.threads) {
        if (thread.batch <= kBatches) return false;
      }
    }
    return asked_ == 3;
  }

  void Enter(int number, int thread, const PeerHeader& header, bool has_backward = false) {
    Program& program = programs_[static_cast<std::size_t>(number)];
    Rank* const rank = ranks_[static_cast<std::size_t>(number)].get();
    program.sent_by[rank->entered] = thread;
    rank->Enter(header, has_backward);
  }

  void MoveProgram(int number) {
    Program& program = programs_[static_cast<std::size_t>(number)];
    Rank* const rank = ranks_[static_cast<std::size_t>(number)].get();
    if (number == 0 && Below(8) == 0 && !is_asking_ && asked_ < 3 && program.lease < 0) {
      is_asking_ = true;
      return Enter(0, 2, Ask(AskPhase::kSave, ++asked_));
    }
    if (!rank->heard.empty() && rank->session.state() == PeerState::kSaves && Below(4) == 0) rank->session.Resume();
    const int which = Below(2);
    Thread& thread = program.threads[which];
    if (thread.batch > kBatches) return;
    const Phase phase = thread.phase;
    if (phase == Phase::kBegins) {
      thread.phase = Phase::kWaits;
      Enter(number, which, Header(PeerKind::kGate, 1 + which, thread.batch));
    } else if (phase == Phase::kClaims && program.lease < 0 && rank->session.MayClaim(1 + which)) {
      thread.phase = Phase::kWaits;
      program.lease = which;
      const PeerKind kind = which == 0 ? PeerKind::kForward : PeerKind::kRead;
      Enter(number, which, Header(kind, 1 + which, thread.batch), which == 0);
    } else if (phase == Phase::kComputes) {
      thread.phase = Phase::kWaits;
      Enter(number, which, Header(PeerKind::kBackward, 1, thread.batch));
    }
  }

  void MoveRank(int number) {
    Rank* const rank = ranks_[static_cast<std::size_t>(number)].get();
    if (!rank->is_busy) {
      const Kind kind = rank->Next().kind;
      CHECK(kind == Kind::kSend || kind == Kind::kWait || kind == Kind::kSayWait);
    }
    std::vector<PeerHeader> headers;
    for (const auto& one : ranks_) {
      if (!one->is_busy) return;
      headers.push_back(one->session.current().header);
    }
    for (std::size_t other = 0; other < ranks_.size(); ++other) {
      const std::vector<PeerAsk>& heard = ranks_[other]->heard;
      const std::size_t before = heard.size();
      ranks_[other]->Conclude(headers);
      if (heard.size() > before) programs_[other].log += Text("save ", heard.back().number, " ");
    }
  }

  void Hear(int number, int id, const PeerVerdict& verdict) {
    Program& program = programs_[static_cast<std::size_t>(number)];
    const int which = program.sent_by.at(id);
    if (which == 2) {
      CHECK(verdict.kind == VerdictKind::kAsked);
      program.log += Text("save ", asked_, " ");
      is_asking_ = false;
      return;
    }
    Thread& thread = program.threads[which];
    switch (verdict.kind) {
      case VerdictKind::kBegin:
        thread.phase = Phase::kClaims;
        return;
      case VerdictKind::kTurn:
      case VerdictKind::kAsked:
        thread.phase = Phase::kClaims;
        program.lease = -1;
        return;
      case VerdictKind::kGo:
        thread.phase = Phase::kComputes;
        program.log += Text("go ", thread.batch, " ");
        return;
      case VerdictKind::kApply:
      case VerdictKind::kRows:
        program.log += Text(which == 0 ? "applied " : "read ", thread.batch++, " ");
        thread.phase = Phase::kBegins;
        program.lease = -1;
        return;
      default:
        CHECK(false);
    }
  }

  std::mt19937 numbers_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Program> programs_;
  int asked_ = 0;
  bool is_asking_ = false;
};

}  // namespace

TEST(RanksInLockstepDoTheSameInTheSameOrder) {
  for (unsigned seed = 0; seed < 150; ++seed) Lockstep(2 + static_cast<int>(seed % 2), seed).Run();
}
