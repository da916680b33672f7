#include "peers/peer_session.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/error_codes.gen.h"
#include "peers/likeness.h"

namespace ascpipe {

namespace {

using Kind = PeerMove::Kind;

constexpr std::chrono::seconds kTellEvery{10};
constexpr std::chrono::milliseconds kLookEvery{500};  // interval between checks of a broken rank for a running step
constexpr double kComputes = 0.25;                    // minimum share of a processor; Horovod's own threads use less

CoreStatus Stopped() { return Error(Code::kCancelled, "the pipeline was stopped"); }

PeerMove WaitUntil(PeerSession::Time time) {
  PeerMove move;
  move.until = time;
  return move;
}

PeerMove MoveOf(Kind kind, const PeerRequest* waits = nullptr) {
  PeerMove move;
  move.kind = kind;
  move.waits = waits;
  return move;
}

PeerAction Tell(PeerRequest request, const PeerVerdict& verdict, bool has_rows = false) {
  PeerAction action;
  action.request = std::move(request);
  action.verdict = verdict;
  action.has_rows = has_rows;
  return action;
}

// Reads the names of a step's collectives from the facts of the step.
std::string CollectivesOf(const std::string& facts) {
  std::istringstream lines(facts);
  std::string names;
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, sizeof(kCollectiveItem) - 1, kCollectiveItem) != 0) continue;
    const std::size_t begin = sizeof(kCollectiveItem) - 1;
    names += (names.empty() ? "" : ", ") + line.substr(begin, line.find('\t') - begin);
  }
  return names;
}

}  // namespace

// ---- events: any thread

PeerActions PeerSession::Enter(PeerRequest request, bool is_next) {
  PeerActions actions;
  if (is_broken() || !poisoned_.ok() || stopped_) {
    const CoreStatus cause = is_broken() ? broken_ : Stopped();
    if (request.header.kind == PeerKind::kBackward && poisoned_.ok()) {
      poisoned_ = Error(kE311, "a step was applied to some tables only: ", cause.text());
    }
    actions.push_back(Failure(std::move(request), poisoned_.ok() ? cause : poisoned_));
  } else if (MustYield(request.header)) {  // claimed before this rank knew that it must yield
    const PeerVerdict turn = {VerdictKind::kTurn, turn_, ""}, asked = {VerdictKind::kAsked, 0, ""};
    actions.push_back(Tell(std::move(request), state_ == PeerState::kTurn ? turn : asked));
  } else {
    queue_.insert(is_next ? queue_.begin() : queue_.end(), std::move(request));
  }
  return actions;
}

void PeerSession::Resume() {
  if (DoesItsPart()) state_ = PeerState::kFree;
}

bool PeerSession::BeginLeave() {
  if (departure_ != Departure::kStays) return false;
  departure_ = Departure::kLeaves;
  return true;
}

// ---- sending of requests

// Returns true if a request may be sent in the current state.
bool PeerSession::MayBeSent(const PeerHeader& header) const {
  switch (state_) {
    case PeerState::kFree:
      return true;
    case PeerState::kTurn:
      return !header.has_batch() || header.stream == turn_;
    case PeerState::kStep:
      return header.kind == PeerKind::kBackward || header.kind == PeerKind::kLeave;
    default:
      return false;
  }
}

// Returns true if a request of this rank must be put aside, because another stream or a request of rank 0 is next. Only
// kForward requests (which hold the lease) and kRead requests (which have read rows) are put aside. A failed step has
// already released the lease.
bool PeerSession::MustYield(const PeerHeader& header) const {
  if (!header.cause.empty()) return false;
  const bool claims = header.kind == PeerKind::kForward, reads = header.kind == PeerKind::kRead;
  switch (state_) {
    case PeerState::kTurn:
      return (claims || reads) && header.stream != turn_;
    case PeerState::kSaves:
      return claims;
    case PeerState::kChanges:
      return claims || reads;
    default:
      return false;
  }
}

std::deque<PeerRequest>::const_iterator PeerSession::FirstToSend(bool with_pulses) const {
  return std::find_if(queue_.begin(), queue_.end(), [this, with_pulses](const PeerRequest& one) {
    return MayBeSent(one.header) && (with_pulses || !one.header.is_pulse());
  });
}

// ---- the next move

PeerMove PeerSession::Next(const Around& around) {
  if (exchange_ == Exchange::kAwaited) return Await(around);
  if (stopped_) return MoveOf(Kind::kEnd);
  if (is_broken()) return MoveOfBroken(around);
  const auto next = FirstToSend(true);
  if (next != queue_.end()) {
    const auto at = queue_.begin() + (next - queue_.cbegin());
    PeerRequest request = std::move(*at);
    queue_.erase(at);
    return Send(std::move(request));
  }
  if (state_ != PeerState::kTurn || queue_.empty()) return Pulse(around);
  const Time until = turned_ + limits_.wait_timeout;
  return around.now < until ? WaitUntil(until) : MoveOf(Kind::kGiveUpTurn, &queue_.front());
}

PeerMove PeerSession::Send(PeerRequest request) {
  current_ = std::move(request);
  exchange_ = current_.header.kind == PeerKind::kBroken ? Exchange::kLate : Exchange::kAwaited;
  return MoveOf(Kind::kSend);
}

// Waits until an exchange ends or times out, or until a message about the wait is due. A heartbeat has a timeout only
// if another request waits for the end of the heartbeat.
PeerMove PeerSession::Await(const Around& around) {
  const PeerRequest* waits = &current_;
  if (stopped_) return MoveOf(Kind::kGiveUpExchange, waits);
  if (current_.header.is_pulse()) {
    const auto behind = FirstToSend(false);
    if (behind == queue_.end()) return PeerMove();  // the transport ends the heartbeat if a rank has exited
    waits = &*behind;
  }
  const Time until = std::max(waits->since, around.progressed) + limits_.wait_timeout;
  const Time tells = std::max(waits->since + limits_.warn_after, told_ + kTellEvery);
  if (around.now >= until) return MoveOf(Kind::kGiveUpExchange, waits);
  if (around.now < tells) return WaitUntil(std::min(until, tells));
  told_ = around.now;
  return MoveOf(Kind::kSayWait, waits);
}

PeerMove PeerSession::MoveOfBroken(const Around& around) {
  // A step that still runs waits in a Horovod op. Only a shutdown of Horovod ends a wait in a Horovod op.
  if (!engine_ended_ && around.has_steps && around.now - broken_since_ > limits_.end_after) {
    engine_ended_ = true;
    return MoveOf(Kind::kEndEngine);
  }
  if (state_ == PeerState::kBroken && exchange_ == Exchange::kNone) {
    PeerRequest request;
    request.header.kind = PeerKind::kBroken;
    request.header.cause = broken_.text();
    return Send(std::move(request));
  }
  return engine_ended_ ? PeerMove() : WaitUntil(around.now + kLookEvery);
}

// Sends a heartbeat if this rank has not exchanged anything for some time.
PeerMove PeerSession::Pulse(const Around& around) {
  const bool is_away =
      departure_ == Departure::kLeft || (departure_ == Departure::kLeaves && state_ == PeerState::kFree);
  if (!poisoned_.ok() || state_ == PeerState::kTurn || is_away) return PeerMove();
  if (IsStuck(around)) return MoveOf(Kind::kGiveUpStep);
  const Time due = quiet_ + limits_.idle_after;
  if (around.now < due) return WaitUntil(due);
  PeerRequest pulse;
  pulse.header.kind = rank_ == 0 || state_ != PeerState::kFree ? PeerKind::kBusy : PeerKind::kIdle;
  const bool is_asked = DoesItsPart() || (rank_ == 0 && has_open_question());
  pulse.header.doing = state_ == PeerState::kStep ? Doing::kComputes : is_asked ? Doing::kAsked : Doing::kOther;
  return Send(std::move(pulse));
}

// Returns true if a step with collectives of the program has used almost no processor time for wait_timeout.
bool PeerSession::IsStuck(const Around& around) {
  if (!WatchesStep()) return false;
  const double wall_ns = std::chrono::duration<double, std::nano>(around.now - step_.computed).count();
  if (step_.processor_ns < 0 || static_cast<double>(around.processor_ns - step_.processor_ns) >= kComputes * wall_ns) {
    step_.computed = around.now;
    step_.processor_ns = around.processor_ns;
  }
  return around.now - step_.computed >= limits_.wait_timeout;
}

// ---- end of exchange

PeerActions PeerSession::PassGate() {
  exchange_ = Exchange::kNone;
  PeerActions actions;
  const PeerVerdict begins = {VerdictKind::kBegin, current_.header.stream, ""};
  actions.push_back(Tell(std::move(current_), begins));
  return actions;
}

PeerActions PeerSession::Conclude(const std::vector<PeerHeader>& headers, const PeerVerdict& verdict, Time now) {
  const PeerHeader& ask = headers[0];
  const bool was_turn = state_ == PeerState::kTurn;
  PeerRequest request = std::move(current_);
  exchange_ = Exchange::kNone;
  quiet_ = now;
  state_ = After(verdict, request, ask);
  if (state_ == PeerState::kTurn) {
    turn_ = verdict.stream;
    turned_ = now;
  }
  if (verdict.kind == VerdictKind::kGo) {
    step_ = {request.header.ticket, request.facts == nullptr ? "" : CollectivesOf(*request.facts), now, now, -1};
  }
  PeerActions actions;
  if (verdict.kind == VerdictKind::kAsked) {
    if (ask.phase == AskPhase::kSave || ask.phase == AskPhase::kChange) open_.insert(ask.ticket);
    if (ask.phase == AskPhase::kEnd) open_.erase(ask.ticket);
    if (rank_ != 0) {
      actions.emplace_back();
      actions.back().kind = PeerAction::Kind::kHear;
      actions.back().ask = {ask.phase, ask.ticket, ""};
    }
  }
  const bool again = SendsAgain(request, verdict);
  if (!again) actions.push_back(Tell(std::move(request), verdict, true));
  // Queued requests that must yield are put aside, too. Queued requests were not part of the exchange that has ended.
  for (auto one = queue_.begin(); one != queue_.end();) {
    if (MustYield(one->header)) {
      actions.push_back(Tell(std::move(*one), verdict));
      one = queue_.erase(one);
    } else {
      ++one;
    }
  }
  if (again) queue_.push_front(std::move(request));  // NOLINT(bugprone-use-after-move): not moved if `again`
  if (was_turn) {
    actions.emplace_back();
    actions.back().kind = PeerAction::Kind::kClaim;
  }
  if (verdict.kind == VerdictKind::kPoison) {
    if (poisoned_.ok()) poisoned_ = CoreStatus(kE311.code, verdict.cause);
    FailQueue(poisoned_, &actions);
  }
  return actions;
}

PeerState PeerSession::After(const PeerVerdict& verdict, const PeerRequest& request, const PeerHeader& ask) const {
  if (DoesItsPart()) return state_;  // the state stays until Resume is called
  switch (verdict.kind) {
    case VerdictKind::kTurn:
      return PeerState::kTurn;
    case VerdictKind::kGo:
      return request.has_backward ? PeerState::kStep : PeerState::kFree;
    case VerdictKind::kAgain:
      return state_ == PeerState::kStep ? state_ : PeerState::kFree;
    case VerdictKind::kAsked:
      if (rank_ == 0) return PeerState::kFree;
      if (ask.phase == AskPhase::kSave) return PeerState::kSaves;
      return ask.phase == AskPhase::kChange ? PeerState::kChanges : PeerState::kFree;
    default:
      return PeerState::kFree;
  }
}

// Returns true if a request is queued again, and false if the request receives the verdict. `state_` is the state after
// the verdict.
bool PeerSession::SendsAgain(const PeerRequest& request, const PeerVerdict& verdict) const {
  const PeerHeader& mine = request.header;
  if (mine.is_pulse() || MustYield(mine)) return false;
  switch (verdict.kind) {
    case VerdictKind::kTurn:
    case VerdictKind::kAgain:
      return true;
    case VerdictKind::kAsked:
      return mine.kind != PeerKind::kAsk;
    default:
      return false;
  }
}

PeerActions PeerSession::Fail(const CoreStatus& why, bool others_know, Time now) {
  PeerActions actions = Break(why, others_know ? PeerState::kMute : PeerState::kBroken, now);
  exchange_ = Exchange::kNone;
  return actions;
}

PeerActions PeerSession::GiveUp(const CoreStatus& why, Time now) {
  // If a step has started and its gradients are not in an exchange yet, the step itself is abandoned.
  if (state_ == PeerState::kStep && exchange_ == Exchange::kNone && poisoned_.ok()) poisoned_ = why;
  return Break(why, PeerState::kBroken, now);
}

void PeerSession::EndLate(bool others_know) {
  exchange_ = Exchange::kNone;
  if (others_know) state_ = PeerState::kMute;
}

PeerActions PeerSession::Finish() {
  PeerActions actions;
  FailQueue(Stopped(), &actions);
  return actions;
}

PeerActions PeerSession::Break(const CoreStatus& why, PeerState state, Time now) {
  PeerActions actions;
  state_ = state;
  broken_ = why;
  broken_since_ = now;
  open_.clear();
  if (exchange_ == Exchange::kAwaited) {
    exchange_ = Exchange::kLate;
    actions.push_back(Failure(std::move(current_), why));
  }
  FailQueue(why, &actions);
  return actions;
}

// Returns the action that reports the failure of a request. If the gradients of a step are not exchanged, the step's
// tables contain only some of its updates.
PeerAction PeerSession::Failure(PeerRequest request, const CoreStatus& why) {
  const bool half = request.header.kind == PeerKind::kBackward;
  if (half && poisoned_.ok()) poisoned_ = why;
  return Tell(std::move(request), {half ? VerdictKind::kPoison : VerdictKind::kFail, 0, why.text()});
}

void PeerSession::FailQueue(const CoreStatus& why, PeerActions* actions) {
  for (PeerRequest& request : queue_) actions->push_back(Failure(std::move(request), why));
  queue_.clear();
}

}  // namespace ascpipe
