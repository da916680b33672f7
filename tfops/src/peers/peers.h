// Exchanges messages with the other ranks, one exchange at a time, and reports the verdict that all ranks reach.
//
// All exchanges use the same Horovod name, so Horovod matches messages of different kinds. Decide checks whether the
// messages of all ranks belong together. A dedicated thread makes the exchanges. No other thread waits inside the
// transport. Each request, except a heartbeat, has a timeout. PeerSession decides which messages are sent and which
// actions follow. Peers adds the lock, the thread and the transport.
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

constexpr char kSignatureEnd = '\x1e';  // separates signature and collectives in the text that each rank sends once

// Converts seconds to a duration of the clock.
inline std::chrono::steady_clock::duration Limit(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds < 1e9 ? seconds : 1e9));
}

// Interface to the keys that are sent with each message. The methods are called on the thread of Peers.
class PeerKeys {
 public:
  virtual ~PeerKeys() = default;
  // Appends pieces for each rank, including the keys of the header's batch. *keeps owns the bytes of the pieces.
  virtual void Pack(const PeerHeader& header, std::vector<std::vector<Piece>>* to,
                    std::shared_ptr<const void>* keeps) = 0;
  // Stores the keys from all ranks. Unpack is called before `done`, even if the verdict is a failure.
  virtual CoreStatus Unpack(const Received& keys) = 0;
  // Returns true if all keys that a gate waits for have arrived. IsKnown is called before a header is sent, so all
  // ranks get the same result.
  virtual bool IsKnown(const PeerHeader& gate) const = 0;
};

class Peers {
 public:
  struct Settings {
    double wait_timeout_s = 0;  // timeout of an exchange
    double idle_after_s = 0.5;  // idle time before a heartbeat
    double warn_after_s = 5;    // a longer wait is reported on stderr, and again every 10 s
    double end_after_s = 5;   // time after a failure until the engine is shut down, if a step of the program still runs
    std::string signature;    // must be equal on all ranks (peers/likeness.h)
    std::string collectives;  // Horovod ops in the program's graph, in the same format
    layout::Exchanges* figures = nullptr;                   // statistics in shared memory, or null
    std::shared_ptr<SpanRing<layout::ExchangeSpan>> spans;  // ring of recorded exchanges; null: not recorded
    // Function that is called when batches of other streams may be claimed, or when rank 0 has received an answer.
    std::function<void()> on_change;
    // Function that is called on ranks other than 0 when rank 0 sends a request. After a kSave or kChange request, only
    // heartbeats are sent until Resume is called.
    std::function<void(PeerAsk)> on_ask;
    std::function<bool()> has_steps;  // returns true while a step of the program runs; null: never; any thread
    // Function that returns a counter. The counter grows while this process makes progress with requests of rank 0. Any
    // thread may call the function. The function is null if this process reports no progress.
    std::function<std::int64_t()> work;
  };

  Peers(std::unique_ptr<Transport> transport, PeerKeys* keys, Settings settings);
  ~Peers();

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }

  // Queues an exchange.
  void Exchange(PeerRequest request);
  // Queues an exchange at the front of the queue, because other ranks wait for the exchange.
  void ExchangeNext(PeerRequest request);
  // Records a change of tables between two steps, with the hash of the change.
  void NoteChange(std::uint64_t hash);

  // Reports that this rank has executed a request of rank 0, so that exchanges continue. Call Resume after on_ask was
  // called.
  void Resume();
  // Sends one line of text to rank 0 with the next exchange.
  void Answer(const std::string& text);
  // Returns the answers of a rank that have arrived since the last call, one answer per line. Only rank 0 calls
  // TakeAnswers.
  std::string TakeAnswers(int rank);
  // StateOf returns the state of a rank. SilenceOf returns the seconds since a rank last made progress with a request
  // of rank 0.
  std::string StateOf(int rank) const;
  double SilenceOf(int rank) const;
  // Returns the seconds since any rank last made progress with a request of rank 0.
  double Silence() const;
  // Returns true if a batch of this stream may be claimed. Returns false if another stream or a request of rank 0 is
  // next.
  bool MayClaim(int stream) const;

  // Returns OK while this rank exchanges messages, and later the reason why this rank has stopped.
  CoreStatus Broken() const;
  // Returns OK while the tables are usable, and later the reason why no rank may use its tables.
  CoreStatus Poisoned() const;

  // Announces that this rank shuts down, and waits for the other ranks until the timeout. While a request of rank 0 is
  // open, Leave waits longer: until wait_timeout_s plus the timeout has passed without progress of any rank. `cause` is
  // the error of this rank's program. `cause` is "" if there is no error. Leave is idempotent.
  void Leave(int timeout_ms, std::string cause = "");
  // Stops the thread. Stop is idempotent.
  void Stop();

 private:
  struct Reply {
    bool over = false;
    CoreStatus status;
    Parcel parcel;
  };
  // Callbacks of the transport share ownership of a Meeting, because an abandoned exchange may end after Peers is
  // destroyed.
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
  PeerSession session_;  // its functions for events of the exchanging thread are called only on the thread of Peers
  AwaitedRanks awaited_;
  std::string answers_;             // answers that were not sent yet
  std::vector<std::string> heard_;  // rank 0: answers by rank
  std::int64_t changes_ = 0;
  std::uint64_t change_hash_ = 0;
  std::shared_ptr<Reply> reply_;  // reply of the exchange in flight, or null

  // Only the thread of Peers may use the members below.
  PeerFigures figures_;
  std::int64_t sequence_ = 0;  // number of the last exchange
  bool has_signed_ = false;    // true if the signature was sent
  std::set<std::uint64_t> facts_sent_;
  // Signatures and collectives that the ranks have sent, by rank.
  std::vector<std::string> signatures_, collectives_;
  std::vector<std::map<std::uint64_t, std::string>> facts_;  // by rank, then by hash
  bool told_apart_ = false;                                  // true if the line about different collectives was printed
  const std::uint64_t machine_ = ThisMachine();
  std::shared_ptr<std::vector<std::uint8_t>> buffer_;
  std::thread thread_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_PEERS_H_
