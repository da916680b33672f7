// Decides what a rank exchanges with the other ranks, and when.  Events come in, actions go out: no thread, no lock, no
// clock and no socket.  peers.h has the thread and the transport; verdict.h has what all ranks conclude.
//
// | state    | this rank sends                           | entered by                      | left by               |
// |----------|-------------------------------------------|---------------------------------|-----------------------|
// | kFree    | the oldest request, or a heartbeat        | other verdicts, Resume          |                       |
// | kTurn    | requests of one stream or without a batch | TURN                            | the next verdict      |
// | kStep    | gradients, LEAVE or BUSY                  | GO of a step with gradients     | a verdict, not AGAIN  |
// | kSaves   | BUSY                                      | ASKED (SAVE), not on rank 0     | Resume                |
// | kChanges | BUSY                                      | ASKED (CHANGE), not on rank 0   | Resume                |
// | kBroken  | BROKEN                                    | a failure; other ranks wait     | other ranks know it   |
// | kMute    | nothing                                   | a failure that other ranks know |                       |
#ifndef ASCPIPE_PEERS_PEER_SESSION_H_
#define ASCPIPE_PEERS_PEER_SESSION_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "peers/header.h"
#include "peers/message.h"
#include "peers/verdict.h"

namespace ascpipe {

// What a thread wants to exchange.
struct PeerRequest {
  PeerHeader header;
  std::vector<std::vector<Piece>> rows;      // by rank; empty: none
  std::shared_ptr<const void> keeps;         // the bytes of `rows`, until the exchange is over
  std::shared_ptr<const std::string> facts;  // kForward, kRead: what must be alike in the step of all ranks, or null
  // kForward: gradients follow.  Until they do, nothing else is sent: other ranks wait for them.
  bool has_backward = false;
  // Called once, on the thread of Peers or the caller's; must not wait.  kTurn: another stream comes first, so a claim
  // is to be put aside; kAsked: so it is for what rank 0 asks for.
  std::function<void(const PeerVerdict&, const Received& rows)> done;
  // Peers sets these: when the wait for other ranks began, and how long this rank had exchanged nothing before.
  std::chrono::steady_clock::time_point since;
  std::int64_t busy_us = 0;
  bool was_sent = false;
};

// What rank 0 asks the other ranks for.
struct PeerAsk {
  AskPhase phase = AskPhase::kSave;
  std::int64_t number = 0;
  std::string text;
};

enum class PeerState { kFree, kTurn, kStep, kSaves, kChanges, kBroken, kMute };

struct PeerAction {
  enum class Kind {
    kTell,   // call request.done with the verdict, and with the received rows if has_rows
    kHear,   // rank 0 asks: pass `ask` on, without its text
    kClaim,  // batches of other streams may be claimed now
  };

  Kind kind = Kind::kTell;
  PeerRequest request;
  PeerVerdict verdict;
  bool has_rows = false;
  PeerAsk ask;
};
using PeerActions = std::vector<PeerAction>;  // to be carried out in this order

// What the thread does next.
struct PeerMove {
  enum class Kind {
    kWait,       // for an event, until a time at most
    kSend,       // begin the exchange of current(), or call PassGate
    kSayWait,    // print a line about the wait of a request, then ask again
    kEndEngine,  // shut the engine down, then ask again
    // Call GiveUp with an error that says:
    kGiveUpExchange,  // the other ranks do not answer a request
    kGiveUpTurn,      // this rank has no request of the stream that is next
    kGiveUpStep,      // the step hangs in a collective of the program
    kEnd,             // call Finish
  };

  Kind kind = Kind::kWait;
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();  // kWait; max: no limit
  const PeerRequest* waits = nullptr;  // the request that waits, until the next event; null: none does
};

class PeerSession {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  struct Limits {
    Duration wait_timeout, idle_after, warn_after, end_after;  // as in Peers::Settings
  };

  // What the session cannot see by itself.
  struct Around {
    Time now;
    Time progressed;                // when a busy rank last made progress
    std::int64_t processor_ns = 0;  // processor time of this process; needed if WatchesStep
    bool has_steps = false;         // a step of the program runs; needed if is_broken
  };

  // A step that has begun on all ranks.
  struct Step {
    std::int64_t ticket = 0;
    std::string collectives;         // of the program; empty: none
    Time since, computed;            // when it began, and when it last used a processor
    std::int64_t processor_ns = -1;  // at that time; -1: not known yet
  };

  PeerSession(int rank, const Limits& limits, Time now) : rank_(rank), limits_(limits), quiet_(now) {}

  // ---- events of any thread

  // A request comes.  Without an action, it is in line.
  PeerActions Enter(PeerRequest request, bool is_next);
  // This rank has done its part of a question of rank 0.
  void Resume();
  // This rank begins to shut down; returns true for the first call.
  bool BeginLeave();
  void NoteLeft() { departure_ = Departure::kLeft; }
  void Stop() { stopped_ = true; }

  // ---- events of the thread that exchanges

  PeerMove Next(const Around& around);
  // The keys of the gate in current() have come: it is over without an exchange.
  PeerActions PassGate();
  // The exchange has ended.
  PeerActions Conclude(const std::vector<PeerHeader>& headers, const PeerVerdict& verdict, Time now);
  // It has ended with an error, which breaks this rank.  `others_know` it, or have the same one.
  PeerActions Fail(const CoreStatus& why, bool others_know, Time now);
  // This rank is broken: it has waited too long, as Next said.
  PeerActions GiveUp(const CoreStatus& why, Time now);
  // An exchange has ended that nothing waits for.  `others_know` that this rank is broken, or cannot be told.
  void EndLate(bool others_know);
  // The thread ends.
  PeerActions Finish();

  // ---- state

  PeerState state() const { return state_; }
  PeerRequest& current() { return current_; }  // of the exchange under way; changes by events of the thread alone
  bool is_late() const { return exchange_ == Exchange::kLate; }
  bool is_broken() const { return state_ == PeerState::kBroken || state_ == PeerState::kMute; }
  bool is_stopped() const { return stopped_; }
  bool has_left() const { return departure_ == Departure::kLeft; }
  bool has_open_question() const { return !open_.empty(); }
  int turn() const { return turn_; }
  const Step& step() const { return step_; }
  const CoreStatus& broken() const { return broken_; }
  const CoreStatus& poisoned() const { return poisoned_; }
  // Whether Next needs the processor time of this process.
  bool WatchesStep() const {
    return state_ == PeerState::kStep && exchange_ == Exchange::kNone && !step_.collectives.empty();
  }
  bool MayClaim(int stream) const { return !DoesItsPart() && (state_ != PeerState::kTurn || turn_ == stream); }

 private:
  enum class Exchange { kNone, kAwaited, kLate };  // kLate: under way, and no request waits for it
  enum class Departure { kStays, kLeaves, kLeft };

  bool DoesItsPart() const { return state_ == PeerState::kSaves || state_ == PeerState::kChanges; }
  bool MayBeSent(const PeerHeader& header) const;
  bool MustYield(const PeerHeader& header) const;
  bool SendsAgain(const PeerRequest& request, const PeerVerdict& verdict) const;
  PeerState After(const PeerVerdict& verdict, const PeerRequest& request, const PeerHeader& ask) const;
  std::deque<PeerRequest>::const_iterator FirstToSend(bool with_pulses) const;
  PeerMove Send(PeerRequest request);
  PeerMove Await(const Around& around);
  PeerMove MoveOfBroken(const Around& around);
  PeerMove Pulse(const Around& around);
  bool IsStuck(const Around& around);
  PeerActions Break(const CoreStatus& why, PeerState state, Time now);
  PeerAction Failure(PeerRequest request, const CoreStatus& why);
  void FailQueue(const CoreStatus& why, PeerActions* actions);

  const int rank_;
  const Limits limits_;
  PeerState state_ = PeerState::kFree;
  Exchange exchange_ = Exchange::kNone;
  Departure departure_ = Departure::kStays;
  bool stopped_ = false, engine_ended_ = false;
  CoreStatus broken_, poisoned_;  // why this rank exchanges nothing, and why no rank may use its tables
  std::deque<PeerRequest> queue_;
  PeerRequest current_;
  int turn_ = -1;                // kTurn: the stream that is next
  Step step_;                    // kStep
  std::set<std::int64_t> open_;  // numbers of questions without END
  Time turned_, broken_since_;
  Time quiet_;  // when the last exchange ended
  Time told_;   // when a line about a wait was printed last
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_PEER_SESSION_H_
