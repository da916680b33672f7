// What a rank knows of the ranks that it waits for: what each said last, and since when its work stands still.
#ifndef ASCPIPE_PEERS_AWAITED_H_
#define ASCPIPE_PEERS_AWAITED_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "peers/header.h"

namespace ascpipe {

// A hash that processes share which see each other in /proc: of this boot and process namespace.
std::uint64_t ThisMachine();

// Not thread-safe.
class AwaitedRanks {
 public:
  using Clock = std::chrono::steady_clock;

  AwaitedRanks(int rank, int ranks, Clock::time_point now);

  // What all ranks said in one exchange.
  void Hear(const std::vector<PeerHeader>& headers, Clock::time_point now);
  // This rank did what rank 0 asked for: others have waited for it, and not it for them.
  void NoteOwnWork(Clock::time_point now) { progressed_ = now; }

  // When a busy rank has last gone on with its work.
  Clock::time_point progressed() const { return progressed_; }
  // When any rank has last gone on with what rank 0 asked for.
  Clock::time_point worked() const { return worked_; }
  // When a rank has last gone on with that.
  Clock::time_point worked(int rank) const { return ranks_[static_cast<std::size_t>(rank)].worked; }

  // "rank 1, which ...": the ranks that keep this one waiting, as far as it knows.
  std::string Names(Clock::time_point now) const;
  // "rank 1, which ...", of one rank.
  std::string NameWithState(int rank, Clock::time_point now) const;
  // The ranks of this machine whose processes are stopped by a signal or have ended; "" without any.
  std::string Lost() const;

 private:
  struct Known {
    bool was_heard = false;
    PeerHeader header;  // without its cause
    Clock::time_point worked;
  };

  std::string StateOf(int rank, bool has_answered) const;
  bool IsFresh(Clock::time_point now) const;

  const int rank_;
  std::vector<Known> ranks_;
  Clock::time_point heard_, progressed_, worked_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_AWAITED_H_
