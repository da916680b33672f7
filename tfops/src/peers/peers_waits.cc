// Peers: waits for other ranks, each with a timeout and a line on stderr, and heartbeats.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include "core/error_codes.gen.h"
#include "core/late_waits.h"
#include "peers/likeness.h"
#include "peers/peers.h"

namespace ascpipe {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kTellEvery{10};
constexpr double kComputes = 0.25;  // of a processor, at least: Horovod's own threads use less

std::int64_t ProcessNs() {
  timespec time = {0, 0};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
}

// The names of the collectives of a step, from its facts.
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

// Gives up the exchange of a request after its timeout: this rank exchanges nothing any more.
void Peers::GiveUp(PeerRequest request) {
  PeerHeader header = request.header;
  Clock::time_point since = request.since;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (const PeerRequest* const waits = Waiting(request)) {
      header = waits->header;
      since = waits->since;
    }
  }
  Break(GivenUp(header, since), std::move(request), true);
}

// Waits for the end of an exchange, and prints a line on stderr about a long wait.  Returns false after the timeout, or if
// the pipeline stops.  The exchange of a heartbeat has no timeout, unless another request waits behind it.
bool Peers::Await(const PeerRequest& request, const std::shared_ptr<Reply>& reply) {
  const Clock::duration limit = Limit(settings_.wait_timeout_s);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_ && !reply->over) {
    const PeerRequest* const waits = Waiting(request);
    if (waits == nullptr) {
      changed_.wait_for(lock, limit);  // the transport ends it where a rank is gone
      continue;
    }
    const Clock::time_point now = Clock::now();
    const Clock::time_point until = std::max(waits->since, awaited_.progressed()) + limit;
    const Clock::time_point tells = std::max(waits->since + Limit(settings_.warn_after_s), told_ + kTellEvery);
    if (now >= until) break;
    if (now < tells) {
      changed_.wait_until(lock, std::min(until, tells));
      continue;
    }
    told_ = now;
    std::string line = "ascpipe: " + Waits(waits->header, waits->since);
    if (waits->header.kind != PeerKind::kLeave) {  // Leave has a limit of its own
      line += Text(". It gives up after ", settings_.wait_timeout_s, " s (wait_timeout_s) without progress");
    }
    lock.unlock();
    SayLine(line);
    lock.lock();
  }
  return reply->over;
}

// Waits until this rank has exchanged nothing for a while, and returns true and the heartbeat to send.  Returns false if
// there may be something else to do.
bool Peers::AwaitPulse(std::unique_lock<std::mutex>* lock, PeerHeader* pulse) {
  const bool may = broken_.ok() && poisoned_.ok() && turn_ < 0 && !left_ && (!leaves_ || paused_ || owes_);
  const Clock::time_point due = quiet_ + Limit(settings_.idle_after_s);
  if (may && IsStuck()) {
    GiveUpStep(lock);
    return false;
  }
  if (may && Clock::now() >= due) {
    pulse->kind = rank() == 0 || paused_ || owes_ ? PeerKind::kBusy : PeerKind::kIdle;
    const bool asked = paused_ || (rank() == 0 && !open_.empty());
    pulse->doing = owes_ ? Doing::kComputes : asked ? Doing::kAsked : Doing::kOther;
    return true;
  }
  if (may) {
    changed_.wait_until(*lock, due);
  } else if (!broken_.ok() && !engine_ended_) {
    changed_.wait_for(*lock, std::chrono::milliseconds(500));  // until EndsEngine
  } else {
    changed_.wait(*lock);
  }
  return false;
}

// Whether a step still runs although this rank exchanges nothing any more.  It waits in a collective of the program, which
// only a shutdown of the engine ends.
bool Peers::EndsEngine() const {
  return !broken_.ok() && !engine_ended_ && settings_.has_steps != nullptr && settings_.has_steps() &&
         Clock::now() - broken_since_ > Limit(settings_.end_after_s);
}

void Peers::BeginStep(const PeerRequest& request) {
  owed_ticket_ = request.header.ticket;
  owed_collectives_ = request.facts == nullptr ? "" : CollectivesOf(*request.facts);
  owed_since_ = computed_ = Clock::now();
  computed_ns_ = ProcessNs();
}

// Whether a step with collectives of the program has used no processor time for wait_timeout_s.
bool Peers::IsStuck() {
  if (!owes_ || owed_collectives_.empty()) return false;
  const Clock::time_point now = Clock::now();
  const std::int64_t ns = ProcessNs();
  const double wall_ns = std::chrono::duration<double, std::nano>(now - computed_).count();
  if (static_cast<double>(ns - computed_ns_) >= kComputes * wall_ns) {
    computed_ = now;
    computed_ns_ = ns;
  }
  return now - computed_ >= Limit(settings_.wait_timeout_s);
}

// Ends the exchanges of a rank whose step hangs in a collective of the program.
void Peers::GiveUpStep(std::unique_lock<std::mutex>* lock) {
  const CoreStatus why = Error(
      kE310, "rank ", rank(), " has computed batch ", owed_ticket_, " for ",
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - owed_since_).count(),
      " s and uses no processor: one of the program's collectives ", owed_collectives_, " waits for other ranks. What "
      "was saved is whole. All ranks run the same collectives in a step; or raise wait_timeout_s (",
      settings_.wait_timeout_s, " s)");
  PeerRequest step;
  step.header.kind = PeerKind::kBackward;  // tables are half-way through it
  step.done = [](const PeerVerdict&, const Received&) {};
  lock->unlock();
  SayLine("ascpipe: " + why.text());
  Break(why, std::move(step), true);
  lock->lock();
}

// The request that waits for other ranks in this exchange; null if it is only a heartbeat.
const PeerRequest* Peers::Waiting(const PeerRequest& request) const {
  if (!request.header.is_pulse()) return &request;
  const auto next = std::find_if(queue_.begin(), queue_.end(), [this](const PeerRequest& o) {
    return MayBeSent(o) && !o.header.is_pulse();
  });
  return next == queue_.end() ? nullptr : &*next;
}

// "rank 0 trains batch 7 and has waited 5 s for rank 1, which ..."
std::string Peers::Waits(const PeerHeader& header, Clock::time_point since) const {
  const Clock::time_point now = Clock::now();
  return Text("rank ", rank(), " ", NameOf(header.kind), header.has_batch() ? Text(" batch ", header.ticket) : "",
              " and has waited ", std::chrono::duration_cast<std::chrono::seconds>(now - since).count(), " s for ",
              awaited_.Names(now));
}

CoreStatus Peers::GivenUp(PeerHeader header, Clock::time_point since) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stop_) return Error(Code::kCancelled, "the pipeline was stopped");
  return Error(kE310, Waits(header, since), ". What was saved is whole; restart all ranks from the last checkpoint, or "
               "raise wait_timeout_s (", settings_.wait_timeout_s, " s)");
}

// The error for the end of exchanges on all ranks, with ranks of this machine that have exited or are stopped.
CoreStatus Peers::Ended(const CoreStatus& why) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (why.text().compare(0, 4, kE312.number) != 0) return why;
  const std::string lost = awaited_.Lost();
  const std::string rank_or_one = size() == 2 ? Text("rank ", 1 - rank()) : "one of the other ranks";
  return CoreStatus(why.code(), Text(why.text(), ": ",
                                     lost.empty() ? rank_or_one + " has ended, or cannot be reached" : lost,
                                     ". What was saved is whole; the launcher, or the output of the rank that ended "
                                     "first, says why it did. Restart all ranks from the last checkpoint"));
}

}  // namespace ascpipe
