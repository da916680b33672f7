// The other ranks: exchanges messages with them, one exchange at a time, and says what all ranks conclude.
//
// All exchanges have one name, so whatever two ranks send meets, and Decide compares it.  A thread of its own makes
// them: no other thread ever waits inside the transport, and each wait here has a limit.  PeerSession decides what is
// sent and what follows; Peers has the lock, the thread and the transport around it.
#ifndef ASCPIPE_PEERS_PEERS_H_
#define ASCPIPE_PEERS_PEERS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
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
#include "peers/peer_session.h"
#include "peers/transport.h"
#include "peers/verdict.h"

namespace ascpipe {

constexpr char kSignatureEnd = '\x1e';  // in what ranks send once, before the collectives

// A number of seconds, for a clock.
inline std::chrono::steady_clock::duration Limit(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds < 1e9 ? seconds : 1e9));
}

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
  PeerSession::Around Around() const;
  void Send(std::unique_lock<std::mutex>* lock);
  Parcel Pack(const PeerRequest& request, PeerHeader* sent);
  void End(std::unique_lock<std::mutex>* lock);
  CoreStatus Read(const Parcel& parcel, Messages* messages, PeerVerdict* verdict, bool* others_know);
  void CarryOut(PeerActions actions, const Received& rows);
  void Learn(const Messages& messages);
  std::string Difference(const std::vector<PeerHeader>& headers, const PeerVerdict& verdict);
  void Explain(PeerVerdict* verdict) const;
  std::string LineOf(const PeerRequest& waits) const;
  std::string Waits(const PeerRequest& waits) const;
  CoreStatus GivenUpExchange(const PeerRequest& waits) const;
  CoreStatus GivenUpTurn(const PeerRequest& waits) const;
  CoreStatus GivenUpStep() const;
  CoreStatus Ended(const CoreStatus& why) const;

  const std::unique_ptr<Transport> transport_;
  PeerKeys* const keys_;
  const Settings settings_;

  const std::shared_ptr<Meeting> meeting_ = std::make_shared<Meeting>();
  std::mutex& mutex_ = meeting_->mutex;  // guards the members below
  std::condition_variable& changed_ = meeting_->changed;
  PeerSession session_;  // its events of the thread come from that thread alone
  AwaitedRanks awaited_;
  std::string answers_;             // that were not sent yet
  std::vector<std::string> heard_;  // rank 0: answers by rank
  std::int64_t changes_ = 0;
  std::uint64_t change_hash_ = 0;
  std::shared_ptr<Reply> reply_;  // of the exchange under way; null: there is none

  // Of the thread.
  PeerFigures figures_;
  std::int64_t sequence_ = 0;  // of the last exchange
  bool has_signed_ = false;    // the signature was sent
  std::set<std::uint64_t> facts_sent_;
  // Received from the other ranks, by rank.
  std::vector<std::string> signatures_, collectives_;
  std::vector<std::map<std::uint64_t, std::string>> facts_;  // then by their hash
  bool told_apart_ = false;                                  // a line about different collectives was printed
  const std::uint64_t machine_ = ThisMachine();
  std::shared_ptr<std::vector<std::uint8_t>> buffer_;
  std::thread thread_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_PEERS_H_
