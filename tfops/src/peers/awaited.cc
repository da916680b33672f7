#include "peers/awaited.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "core/core_status.h"
#include "core/late_waits.h"
#include "peers/message.h"

namespace ascpipe {

namespace {

constexpr std::chrono::seconds kFresh{3};  // a live rank sends something at shorter intervals

std::string LinkOf(const char* path) {
  char text[256];
  const ssize_t length = readlink(path, text, sizeof(text));
  return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(0, length)));
}

}  // namespace

std::uint64_t ThisMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  return HashOf(boot + " " + LinkOf("/proc/self/ns/pid"));
}

AwaitedRanks::AwaitedRanks(int rank, int ranks, Clock::time_point now)
    : rank_(rank), ranks_(static_cast<std::size_t>(ranks)), heard_(now), progressed_(now), worked_(now) {
  for (Known& known : ranks_) known.worked = now;
}

void AwaitedRanks::Hear(const std::vector<PeerHeader>& headers, Clock::time_point now) {
  heard_ = now;
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    Known& known = ranks_[rank];
    const PeerHeader& header = headers[rank];
    if (known.was_heard && header.work != known.header.work) {
      known.worked = worked_ = now;
      if (header.kind == PeerKind::kBusy && static_cast<int>(rank) != rank_) progressed_ = now;
    }
    known.was_heard = true;
    known.header = header;
    known.header.cause.clear();
  }
}

// Returns true if an exchange has ended recently. If an exchange has ended recently, this rank waits for the ranks that
// had nothing to exchange.
bool AwaitedRanks::IsFresh(Clock::time_point now) const { return now - heard_ < kFresh; }

std::string AwaitedRanks::StateOf(int rank, bool has_answered) const {
  const Known& known = ranks_[static_cast<std::size_t>(rank)];
  const PeerHeader& header = known.header;
  if (known.was_heard && header.machine == ranks_[static_cast<std::size_t>(rank_)].header.machine) {
    const char state = ProcessState(header.pid);
    if (state == 'T') return Text("whose process (pid ", header.pid, ") is stopped by a signal");
    if (state == 0 || state == 'Z') return Text("whose process (pid ", header.pid, ") has ended");
  }
  if (!known.was_heard) return "which has not begun to exchange";
  if (!has_answered) return "which does not answer: its process is stopped, or cannot be reached";
  if (header.kind == PeerKind::kBusy) return Text("which ", NameOf(header.doing));
  if (header.kind == PeerKind::kIdle) return Text("which ", NameOf(Doing::kOther));
  return Text("which ", NameOf(header.kind), header.has_batch() ? Text(" batch ", header.ticket) : "");
}

std::string AwaitedRanks::NameWithState(int rank, Clock::time_point now) const {
  return Text("rank ", rank, ", ", StateOf(rank, IsFresh(now)));
}

std::string AwaitedRanks::Names(Clock::time_point now) const {
  const bool fresh = IsFresh(now);
  // An idle rank can receive requests, so rank 0 does not wait for idle ranks when it sends a request.
  const bool asks = ranks_[static_cast<std::size_t>(rank_)].header.kind == PeerKind::kAsk;
  std::vector<int> late, others;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (static_cast<int>(rank) == rank_) continue;
    others.push_back(static_cast<int>(rank));
    const PeerKind kind = ranks_[rank].header.kind;
    const bool is_late = kind == PeerKind::kBusy || (kind == PeerKind::kIdle && !asks);
    if (fresh && ranks_[rank].was_heard && is_late) late.push_back(static_cast<int>(rank));
  }
  std::string text;
  if (!late.empty() || others.size() == 1) {
    for (const int rank : late.empty() ? others : late) {
      text += Text(text.empty() ? "" : "; ", "rank ", rank, ", ", StateOf(rank, fresh));
    }
    return text;
  }
  const std::string lost = Lost();
  if (!lost.empty()) return lost;
  for (const int rank : others) text += Text(text.empty() ? "one of the ranks " : ", ", rank);
  return text + ", which does not answer: its process is stopped, late, or cannot be reached";
}

std::string AwaitedRanks::Lost() const {
  std::string text;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (static_cast<int>(rank) == rank_ || !ranks_[rank].was_heard) continue;
    const std::string state = StateOf(static_cast<int>(rank), true);
    if (state.compare(0, 5, "whose") == 0) text += Text(text.empty() ? "" : "; ", "rank ", rank, ", ", state);
  }
  return text;
}

}  // namespace ascpipe
