// Functions of Peers that build messages about waits for other ranks. The caller must hold the lock.
#include <chrono>

#include "core/error_codes.gen.h"
#include "peers/peers.h"

namespace ascpipe {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t SecondsSince(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begin).count();
}

}  // namespace

// Returns a text such as "rank 0 trains batch 7 and has waited 5 s for rank 1, which ...".
std::string Peers::Waits(const PeerRequest& waits) const {
  const PeerHeader& header = waits.header;
  return Text("rank ", rank(), " ", NameOf(header.kind), header.has_batch() ? Text(" batch ", header.ticket) : "",
              " and has waited ", SecondsSince(waits.since), " s for ", awaited_.Names(Clock::now()));
}

std::string Peers::LineOf(const PeerRequest& waits) const {
  if (waits.header.kind == PeerKind::kLeave) return Waits(waits);  // Leave has a different timeout
  return Text(Waits(waits), ". It gives up after ", settings_.wait_timeout_s, " s (wait_timeout_s) without progress");
}

CoreStatus Peers::GivenUpExchange(const PeerRequest& waits) const {
  if (session_.is_stopped()) return Error(Code::kCancelled, "the pipeline was stopped");
  return Error(kE310, Waits(waits),
               ". Earlier checkpoints are complete; restart all ranks from the last checkpoint, or raise "
               "wait_timeout_s (",
               settings_.wait_timeout_s, " s)");
}

CoreStatus Peers::GivenUpTurn(const PeerRequest& waits) const {
  return Error(kE310, "rank ", rank(), " ", NameOf(waits.header.kind), " batch ", waits.header.ticket, " of stream ",
               waits.header.stream, ", rank 0 one of stream ", session_.turn(), ", which rank ", rank(),
               " has not begun in ", settings_.wait_timeout_s,
               " s. Earlier checkpoints are complete; all ranks train, and all "
               "ranks evaluate or predict");
}

CoreStatus Peers::GivenUpStep() const {
  return Error(kE310, "rank ", rank(), " has computed batch ", session_.step().ticket, " for ",
               SecondsSince(session_.step().since), " s and uses no processor: one of the program's collectives ",
               session_.step().collectives,
               " waits for other ranks. Earlier checkpoints are complete. All ranks run the same "
               "collectives in a step; or raise wait_timeout_s (",
               settings_.wait_timeout_s, " s)");
}

// Returns the error of this rank after exchanges have ended on all ranks. The error lists the ranks of this machine
// that have exited or are stopped.
CoreStatus Peers::Ended(const CoreStatus& why) const {
  if (why.text().compare(0, 4, kE312.number) != 0) return why;
  const std::string lost = awaited_.Lost();
  const std::string rank_or_one = size() == 2 ? Text("rank ", 1 - rank()) : "one of the other ranks";
  return CoreStatus(why.code(),
                    Text(why.text(), ": ", lost.empty() ? rank_or_one + " has ended, or cannot be reached" : lost,
                         ". Earlier checkpoints are complete; the launcher, or the output of the rank that ended "
                         "first, says why it did. Restart all ranks from the last checkpoint"));
}

}  // namespace ascpipe
