// The last header of each other rank, and the time at which the rank last made progress.
#ifndef ASCPIPE_PEERS_AWAITED_H_
#define ASCPIPE_PEERS_AWAITED_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "peers/header.h"

namespace ascpipe {

// Returns a hash of the machine's boot id and of the process namespace. Processes with the same hash see each other in
// /proc.
std::uint64_t ThisMachine();

// The class is not thread-safe.
class AwaitedRanks {
 public:
  using Clock = std::chrono::steady_clock;

  AwaitedRanks(int rank, int ranks, Clock::time_point now);

  // Stores the headers of all ranks from one exchange.
  void Hear(const std::vector<PeerHeader>& headers, Clock::time_point now);
  // Records that this rank has worked on a request of rank 0, so this rank did not wait for other ranks.
  void NoteOwnWork(Clock::time_point now) { progressed_ = now; }

  // Returns the time at which a busy rank last made progress.
  Clock::time_point progressed() const { return progressed_; }
  // Returns the time at which any rank last made progress with a request of rank 0.
  Clock::time_point worked() const { return worked_; }
  // Returns the time at which the given rank last made progress with a request of rank 0.
  Clock::time_point worked(int rank) const { return ranks_[static_cast<std::size_t>(rank)].worked; }

  // Returns a description of the ranks that this rank waits for, such as "rank 1, which ...".
  std::string Names(Clock::time_point now) const;
  // Returns the description of one rank.
  std::string NameWithState(int rank, Clock::time_point now) const;
  // Describes the ranks on this machine whose processes have exited or are stopped by a signal. Returns "" if no
  // process has exited or is stopped.
  std::string Lost() const;

 private:
  struct Known {
    bool was_heard = false;
    PeerHeader header;  // its cause is cleared
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
