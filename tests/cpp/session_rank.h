// Decisions of a rank with a simulated clock, without threads.
#ifndef ASCPIPE_TESTS_CPP_SESSION_RANK_H_
#define ASCPIPE_TESTS_CPP_SESSION_RANK_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "peers/peer_session.h"

namespace session_rank {

using namespace ascpipe;

using Kind = PeerMove::Kind;
using std::chrono::seconds;

constexpr seconds kTimeout{60}, kIdle{1}, kWarn{5}, kEnds{5};

// A session with a simulated clock, and the verdicts that its requests have received.
class Rank {
 public:
  explicit Rank(int number = 1)
      : now(PeerSession::Time() + std::chrono::hours(1)), session(number, {kTimeout, kIdle, kWarn, kEnds}, now) {
    around.progressed = now;
  }

  int Enter(PeerHeader header, bool has_backward = false, bool is_next = false, const std::string& facts = "") {
    const int id = entered++;
    PeerRequest request;
    request.header = std::move(header);
    request.has_backward = has_backward;
    request.facts = std::make_shared<const std::string>(facts);
    request.since = now;
    request.done = [this, id](const PeerVerdict& verdict, const Received&) {
      told[id].push_back(verdict);
      if (on_told != nullptr) on_told(id, verdict);
    };
    CarryOut(session.Enter(std::move(request), is_next));
    return id;
  }
  PeerMove Next() {
    around.now = now;
    const PeerMove move = session.Next(around);
    if (move.kind == Kind::kSend) {
      CHECK(!is_busy);  // there is only one exchange at a time
      is_busy = true;
      if (!session.current().was_sent) session.current().since = now;
      session.current().was_sent = true;
    }
    return move;
  }
  // Returns the header that is sent next.
  PeerHeader Sends() {
    const PeerMove move = Next();
    CHECK(move.kind == Kind::kSend);
    return session.current().header;
  }
  void Conclude(const std::vector<PeerHeader>& headers) {
    is_busy = false;
    CarryOut(session.Conclude(headers, Decide(headers), now));
  }
  // Sends the next header, and concludes the exchange of two ranks in which the other header is `other`.
  void Meet(const PeerHeader& other) {
    const PeerHeader mine = Sends();
    Conclude({other, mine});
  }
  void GiveUp() { CarryOut(session.GiveUp(Error(Code::kFailedPrecondition, "given up"), now)); }
  void Fail(bool others_know) {
    is_busy = false;
    CarryOut(session.Fail(Error(Code::kDataLoss, "damaged"), others_know, now));
  }
  void EndLate(bool others_know) {
    is_busy = false;
    session.EndLate(others_know);
  }
  void CarryOut(PeerActions actions) {
    for (PeerAction& action : actions) {
      if (action.kind == PeerAction::Kind::kHear) heard.push_back(action.ask);
      if (action.kind == PeerAction::Kind::kTell && action.request.done != nullptr) {
        action.request.done(action.verdict, {});
      }
    }
  }
  bool Is(int id, VerdictKind kind) { return told[id].size() == 1 && told[id][0].kind == kind; }
  bool IsTold(int id) { return !told[id].empty(); }

  PeerSession::Time now;
  PeerSession session;
  PeerSession::Around around{};
  bool is_busy = false;  // an exchange is in flight
  int entered = 0;
  std::map<int, std::vector<PeerVerdict>> told;
  std::vector<PeerAsk> heard;
  std::function<void(int, const PeerVerdict&)> on_told;
};

inline PeerHeader Header(PeerKind kind, int stream = 1, std::int64_t ticket = 1) {
  PeerHeader header;
  header.kind = kind;
  header.ticket = ticket;
  if (!header.has_batch()) return header;
  header.stream = stream;
  header.run = 1;
  return header;
}

inline PeerHeader Ask(AskPhase phase, std::int64_t number = 1) {
  PeerHeader header = Header(PeerKind::kAsk, 0, number);
  header.phase = phase;
  return header;
}

}  // namespace session_rank

#endif  // ASCPIPE_TESTS_CPP_SESSION_RANK_H_
