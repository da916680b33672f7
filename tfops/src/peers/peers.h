// The other ranks: exchanges messages with them, one exchange at a time, and says what all ranks conclude.
//
// All exchanges have one name, so whatever two ranks send meets, and Decide compares it.  A thread of its own makes
// them: no other thread ever waits inside the transport, and each wait here has a limit.
#ifndef ASCPIPE_PEERS_PEERS_H_
#define ASCPIPE_PEERS_PEERS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/core_status.h"
#include "peers/awaited.h"
#include "peers/figures.h"
#include "peers/header.h"
#include "peers/message.h"
#include "peers/transport.h"
#include "peers/verdict.h"

namespace ascpipe {

constexpr char kSignatureEnd = '\x1e';  // in what ranks send once, before the collectives

// A number of seconds, for a clock.
inline std::chrono::steady_clock::duration Limit(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds < 1e9 ? seconds : 1e9));
}

// What a thread wants to exchange.
struct PeerRequest {
  PeerHeader header;
  std::vector<std::vector<Piece>> rows;  // by rank; empty: none
  std::shared_ptr<const void> keeps;     // the bytes of `rows`, until the exchange is over
  std::shared_ptr<const std::string> facts;  // kForward, kRead: facts of the step that must be alike on all ranks, or null
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

// What rides along with each message.  Called on the thread of Peers.
class PeerKeys {
 public:
  virtual ~PeerKeys() = default;
  // Appends pieces for each rank, those of the header's batch among them; `keeps` keeps their bytes.
  virtual void Pack(const PeerHeader& header, std::vector<std::vector<Piece>>* to,
                    std::shared_ptr<const void>* keeps) = 0;
  // What came from all ranks, also when the verdict is a failure; before `done`.
  virtual CoreStatus Unpack(const Received& keys) = 0;
  // Whether all that a gate waits for has come.  Looked at before a header is sent, so that all ranks find the same.
  virtual bool IsKnown(const PeerHeader& gate) const = 0;
};

class Peers {
 public:
  struct Settings {
    double wait_timeout_s = 0;  // an exchange that takes longer is given up
    double idle_after_s = 0.5;  // a rank that has exchanged nothing for so long sends a heartbeat
    double warn_after_s = 5;    // a longer wait prints a line on stderr, and again every 10 s
    double end_after_s = 5;     // after a failure, the engine is shut down if a step of the program still runs
    std::string signature;      // must be alike on all ranks (peers/likeness.h)
    std::string collectives;    // ops of Horovod in the program's graph, in the same form
    layout::Exchanges* figures = nullptr;  // in shared memory, or null
    std::shared_ptr<SpanRing> spans;       // of exchanges; null: none are kept
    // Batches of other streams may be claimed now, or rank 0 has an answer.
    std::function<void()> on_change;
    // Rank 0 asks, and this is another rank.  kSave, kChange: nothing is sent before Resume.
    std::function<void(PeerAsk)> on_ask;
    std::function<bool()> has_steps;  // whether a step of the program runs; null: never.  Any thread
    // Grows while this process makes progress with questions of rank 0; null: never.  Any thread.
    std::function<std::int64_t()> work;
  };

  Peers(std::unique_ptr<Transport> transport, PeerKeys* keys, Settings settings);
  ~Peers();

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  // Exchanges when those before it are over.
  void Exchange(PeerRequest request);
  // Exchanges next: other ranks wait for this one, whatever else is in line.
  void ExchangeNext(PeerRequest request);
  // Tables have changed between two steps; `hash` of the change.
  void NoteChange(std::uint64_t hash);

  // What rank 0 asked for is done, as far as others have to wait for it.  Called after on_ask has begun.
  void Resume();
  // Rank 0 hears it with the next exchange.  One line.
  void Answer(const std::string& text);
  // Rank 0: what a rank has answered since the last call, each with its line end.
  std::string TakeAnswers(int rank);
  // State of a rank, and seconds since it last made progress with a question of rank 0.
  std::string StateOf(int rank) const;
  double SilenceOf(int rank) const;
  // Seconds since any rank last made progress with a question of rank 0.
  double Silence() const;
  // Whether a batch of this stream may be claimed: no other stream comes first, and nothing that rank 0 asks for.
  bool MayClaim(int stream) const;

  // Why this rank exchanges nothing any more; ok if it does.
  CoreStatus Broken() const;
  // Why no rank may go on with its tables; ok if they may.
  CoreStatus Poisoned() const;

  // Announces that this rank shuts down, and waits for the other ranks until the timeout.  While a question is open, it
  // waits until no rank has made progress for wait_timeout_s.  `cause`: the error of this rank's program, or "".
  // Idempotent.
  void Leave(int timeout_ms, std::string cause = "");
  // Ends the thread.  Idempotent.
  void Stop();

 private:
  struct Reply {
    bool over = false;
    CoreStatus status;
    Parcel parcel;
  };
  // An exchange that was given up may end when there is no Peers any more.
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
  };

  void Enter(PeerRequest request, bool is_next);
  void Run();
  bool Next(PeerRequest* request);
  bool AwaitPulse(std::unique_lock<std::mutex>* lock, PeerHeader* pulse);
  const PeerRequest* Waiting(const PeerRequest& request) const;
  std::string Waits(const PeerHeader& header, std::chrono::steady_clock::time_point since) const;
  bool MayBeSent(const PeerRequest& request) const;
  bool SaysBroken();
  void Send(const PeerRequest& request, PeerHeader* sent, const std::shared_ptr<Reply>& reply);
  Parcel Pack(const PeerRequest& request, PeerHeader* sent);
  void GiveUp(PeerRequest request);
  void BeginStep(const PeerRequest& request);
  bool IsStuck();
  void GiveUpStep(std::unique_lock<std::mutex>* lock);
  bool EndsEngine() const;
  bool Await(const PeerRequest& request, const std::shared_ptr<Reply>& reply);
  void Conclude(PeerRequest request, const Parcel& parcel, const PeerHeader& sent);
  void Learn(const Messages& messages);
  std::string Difference(const std::vector<PeerHeader>& headers, const PeerVerdict& verdict);
  void Explain(PeerVerdict* verdict) const;
  CoreStatus GivenUp(PeerHeader header, std::chrono::steady_clock::time_point since) const;
  CoreStatus Ended(const CoreStatus& why) const;
  bool Yields(const PeerRequest& request) const;
  void Break(const CoreStatus& why, PeerRequest request, bool others_wait);
  void FailAll(const PeerVerdict& verdict);

  const std::unique_ptr<Transport> transport_;
  PeerKeys* const keys_;
  const Settings settings_;

  const std::shared_ptr<Meeting> meeting_ = std::make_shared<Meeting>();
  std::mutex& mutex_ = meeting_->mutex;  // guards the members below
  std::condition_variable& changed_ = meeting_->changed;
  std::deque<PeerRequest> queue_;
  bool stop_ = false;
  bool leaves_ = false, left_ = false;
  bool paused_ = false;   // for what rank 0 asks for
  bool changes_tables_ = false;  // that is
  std::set<std::int64_t> open_;  // numbers of questions without END
  std::string answers_;   // that were not sent yet
  std::vector<std::string> heard_;  // rank 0: by rank
  int turn_ = -1;  // only batches of this stream are next
  std::chrono::steady_clock::time_point turned_;  // since when
  bool owes_ = false;  // a step has begun on all ranks, and its gradients are next
  AwaitedRanks awaited_;
  CoreStatus broken_, poisoned_;
  std::int64_t changes_ = 0;
  std::uint64_t change_hash_ = 0;

  // Of the thread.
  PeerFigures figures_;
  std::int64_t sequence_ = 0;
  bool has_signed_ = false;  // the signature was sent
  std::set<std::uint64_t> facts_sent_;
  // Received from the other ranks, by rank.
  std::vector<std::string> signatures_, collectives_;
  std::vector<std::map<std::uint64_t, std::string>> facts_;  // then by their hash
  bool told_apart_ = false;  // a line about different collectives was printed
  bool others_wait_ = false;             // this rank is broken, and others do not know it
  std::chrono::steady_clock::time_point quiet_;  // when the last exchange ended
  // The step that has begun on all ranks: its batch, its collectives, and when it last used processor time.
  std::int64_t owed_ticket_ = 0;
  std::string owed_collectives_;
  std::chrono::steady_clock::time_point owed_since_, computed_;
  std::int64_t computed_ns_ = 0;  // processor time of this process at that time
  std::chrono::steady_clock::time_point broken_since_;
  bool engine_ended_ = false;
  std::chrono::steady_clock::time_point told_;   // when a line about a wait was printed last
  const std::uint64_t machine_ = ThisMachine();
  std::shared_ptr<Reply> late_;         // of an exchange that nothing here waits for
  std::shared_ptr<std::vector<std::uint8_t>> buffer_;
  std::thread thread_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_PEERS_H_
