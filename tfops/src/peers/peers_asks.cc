// Functions of Peers for the requests of rank 0, and for the answers of the other ranks.
#include <algorithm>
#include <chrono>
#include <utility>

#include "core/late_waits.h"
#include "peers/peers.h"

namespace ascpipe {

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

void Peers::Resume() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    session_.Resume();
    awaited_.NoteOwnWork(Clock::now());
    changed_.notify_all();
  }
  if (settings_.on_change != nullptr) settings_.on_change();
}

void Peers::Answer(const std::string& text) {
  std::lock_guard<std::mutex> lock(mutex_);
  answers_ += text + "\n";
}

std::string Peers::TakeAnswers(int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string taken;
  taken.swap(heard_[static_cast<std::size_t>(rank)]);
  return taken;
}

std::string Peers::StateOf(int rank) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return awaited_.NameWithState(rank, Clock::now());
}

double Peers::SilenceOf(int rank) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Seconds(Clock::now() - awaited_.worked(rank));
}

double Peers::Silence() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Seconds(Clock::now() - awaited_.worked());
}

void Peers::Leave(int timeout_ms, std::string cause) {
  bool is_first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_first = session_.BeginLeave();
  }
  if (is_first) {
    PeerRequest request;
    request.header.kind = PeerKind::kLeave;
    request.header.cause = std::move(cause);
    request.done = [this](const PeerVerdict&, const Received&) {
      std::lock_guard<std::mutex> lock(mutex_);
      session_.NoteLeft();
      changed_.notify_all();
    };
    Exchange(std::move(request));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [this] { return session_.has_left() || session_.is_stopped(); };
  const Clock::time_point begun = Clock::now();
  const Clock::duration limit = std::chrono::milliseconds(timeout_ms);
  while (!over()) {
    // Rank 0 times out first and sends kEnd. This rank waits for the kEnd of rank 0.
    const bool is_open = session_.has_open_question();
    const Clock::time_point until =
        is_open ? std::max(begun, awaited_.worked()) + Limit(settings_.wait_timeout_s) + limit : begun + limit;
    if (changed_.wait_until(lock, until, over) || Clock::now() < until) continue;
    if (is_open) {
      SayLine(Text("ascpipe: rank ", rank(),
                   " ends although rank 0 has not said how its save, restore or change has "
                   "ended: no rank has made progress with it for ",
                   settings_.wait_timeout_s,
                   " s (wait_timeout_s). It waited "
                   "for ",
                   awaited_.Names(Clock::now())));
    }
    return;
  }
}

}  // namespace ascpipe
