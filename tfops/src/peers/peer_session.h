// State machine that decides which messages a rank exchanges with the other ranks, and when. The functions receive
// events and return actions. The state machine has no thread, lock, clock or socket. peers.h adds the thread and the
// transport. verdict.h computes the verdict of all ranks.
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

// A request for an exchange.
struct PeerRequest {
  PeerHeader header;
  std::vector<std::vector<Piece>> rows;      // by rank; empty: none
  std::shared_ptr<const void> keeps;         // keeps the bytes of `rows` until the exchange has ended
  std::shared_ptr<const std::string> facts;  // kForward, kRead: facts of the step that all ranks must share, or null
  // True if gradients follow a kForward request. Nothing else is sent before the gradients, because the other ranks
  // wait for the gradients.
  bool has_backward = false;
  // Function that is called once with the verdict, on the thread of Peers or on the thread that sends the request. The
  // function must not block. The function must put the claim aside if the verdict is kTurn (another stream is next) or
  // kAsked (rank 0 sends a request).
  std::function<void(const PeerVerdict&, const Received& rows)> done;
  // Peers sets the members below. `since` is the start of the wait for other ranks. `busy_us` is the time since the
  // previous exchange of this rank.
  std::chrono::steady_clock::time_point since;
  std::int64_t busy_us = 0;
  bool was_sent = false;
};

// A request of rank 0 to the other ranks.
struct PeerAsk {
  AskPhase phase = AskPhase::kSave;
  std::int64_t number = 0;
  std::string text;
};

enum class PeerState { kFree, kTurn, kStep, kSaves, kChanges, kBroken, kMute };

struct PeerAction {
  enum class Kind {
    kTell,   // call request.done with the verdict, and with the received rows if has_rows
    kHear,   // pass on the request of rank 0 in `ask`, after setting its text
    kClaim,  // batches of other streams may be claimed now
  };

  Kind kind = Kind::kTell;
  PeerRequest request;
  PeerVerdict verdict;
  bool has_rows = false;
  PeerAsk ask;
};
using PeerActions = std::vector<PeerAction>;  // in the order in which the caller must execute the actions

// Next action of the thread.
struct PeerMove {
  enum class Kind {
    kWait,       // wait for an event, at most until a given time
    kSend,       // start the exchange of current(), or call PassGate
    kSayWait,    // print a line about the wait of a request, then call Next again
    kEndEngine,  // shut the engine down, then call Next again
    // For each of the next three kinds, call GiveUp with an error:
    kGiveUpExchange,  // the other ranks do not answer a request
    kGiveUpTurn,      // this rank has no request of the stream that is next
    kGiveUpStep,      // the step hangs in a collective of the program
    kEnd,             // call Finish
  };

  Kind kind = Kind::kWait;
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();  // kWait; max: no timeout
  const PeerRequest* waits = nullptr;  // the waiting request, valid until the next event; null: none
};

class PeerSession {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;

  struct Limits {
    Duration wait_timeout, idle_after, warn_after, end_after;  // see Peers::Settings
  };

  // State outside the session, which the caller passes to Next.
  struct Around {
    Time now;
    Time progressed;                // time at which a busy rank last made progress
    std::int64_t processor_ns = 0;  // processor time of this process; set if WatchesStep()
    bool has_steps = false;         // a step of the program runs; set if this rank is broken
  };

  // A step that has started on all ranks.
  struct Step {
    std::int64_t ticket = 0;
    std::string collectives;         // collectives of the program; empty: none
    Time since, computed;            // time of the start, and time at which the step last used a processor
    std::int64_t processor_ns = -1;  // processor time at `computed`; -1: unknown
  };

  PeerSession(int rank, const Limits& limits, Time now) : rank_(rank), limits_(limits), quiet_(now) {}

  // ---- events: any thread

  // Adds a request. If no action is returned, the request waits in the queue.
  PeerActions Enter(PeerRequest request, bool is_next);
  // Reports that this rank has executed a request of rank 0.
  void Resume();
  // Starts the shutdown of this rank. Returns true for the first call of BeginLeave.
  bool BeginLeave();
  void NoteLeft() { departure_ = Departure::kLeft; }
  void Stop() { stopped_ = true; }

  // ---- events: exchanging thread

  PeerMove Next(const Around& around);
  // Ends the gate in current() without an exchange, because the keys of the gate have arrived.
  PeerActions PassGate();
  // Reports the end of an exchange.
  PeerActions Conclude(const std::vector<PeerHeader>& headers, const PeerVerdict& verdict, Time now);
  // Reports that an exchange has failed. This rank is then broken. `others_know` is true if the other ranks know about
  // the failure or have the same error.
  PeerActions Fail(const CoreStatus& why, bool others_know, Time now);
  // Marks this rank as broken, after Next has reported a timeout.
  PeerActions GiveUp(const CoreStatus& why, Time now);
  // Reports the end of an exchange for which no request waits. `others_know` is true if the other ranks know that this
  // rank is broken, or if the other ranks cannot be informed.
  void EndLate(bool others_know);
  // Reports that the thread ends.
  PeerActions Finish();

  // ---- state

  PeerState state() const { return state_; }
  PeerRequest& current() { return current_; }  // only changed by events of the thread
  bool is_late() const { return exchange_ == Exchange::kLate; }
  bool is_broken() const { return state_ == PeerState::kBroken || state_ == PeerState::kMute; }
  bool is_stopped() const { return stopped_; }
  bool has_left() const { return departure_ == Departure::kLeft; }
  bool has_open_question() const { return !open_.empty(); }
  int turn() const { return turn_; }
  const Step& step() const { return step_; }
  const CoreStatus& broken() const { return broken_; }
  const CoreStatus& poisoned() const { return poisoned_; }
  // Returns true if the caller must set Around::processor_ns for Next.
  bool WatchesStep() const {
    return state_ == PeerState::kStep && exchange_ == Exchange::kNone && !step_.collectives.empty();
  }
  bool MayClaim(int stream) const { return !DoesItsPart() && (state_ != PeerState::kTurn || turn_ == stream); }

 private:
  enum class Exchange { kNone, kAwaited, kLate };  // kLate: in flight, without a waiting request
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
  CoreStatus broken_, poisoned_;  // reason why this rank has stopped exchanging; reason why no rank may use its tables
  std::deque<PeerRequest> queue_;
  PeerRequest current_;
  int turn_ = -1;                // kTurn: the stream that is next
  Step step_;                    // kStep
  std::set<std::int64_t> open_;  // numbers of the requests without a kEnd yet
  Time turned_, broken_since_;
  Time quiet_;  // time at which the last exchange ended
  Time told_;   // time at which a line about a wait was last printed
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_PEER_SESSION_H_
