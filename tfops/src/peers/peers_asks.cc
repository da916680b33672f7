// Peers: what rank 0 asks the other ranks for, when they can hear it, and what they answer.
#include <chrono>
#include <utility>

#include "peers/peers.h"

namespace ascpipe {

void Peers::Resume() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    paused_ = changes_tables_ = false;
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

void Peers::Leave(int timeout_ms, std::string cause) {
  bool is_first;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_first = !leaves_;
    leaves_ = true;
  }
  if (is_first) {
    PeerRequest request;
    request.header.kind = PeerKind::kLeave;
    request.header.cause = std::move(cause);
    request.done = [this](const PeerVerdict&, const Received&) {
      std::lock_guard<std::mutex> lock(mutex_);
      left_ = true;
      changed_.notify_all();
    };
    Exchange(std::move(request));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  const auto over = [this] { return left_ || stop_; };
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!changed_.wait_until(lock, until, over) && open_ && broken_.ok()) {
    until = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  }
}

// Whether a request is answered by kAsked: it has a claim, or has read tables that change.  That a step has failed is
// told afterwards.
bool Peers::Yields(const PeerRequest& request) const {
  const PeerHeader& header = request.header;
  return header.cause.empty() &&
         (header.kind == PeerKind::kForward || (changes_tables_ && header.kind == PeerKind::kRead));
}

// Waits until a rank but 0 has had nothing to exchange for a while; false: there may be something to do.
bool Peers::IsIdle(std::unique_lock<std::mutex>* lock) {
  const bool may = rank() != 0 && queue_.empty() && !paused_ && !owes_ && !leaves_ && turn_ < 0 && broken_.ok() &&
                   poisoned_.ok();
  if (!may) {
    changed_.wait(*lock);
    return false;
  }
  return changed_.wait_for(*lock, std::chrono::duration<double>(settings_.idle_after_s)) == std::cv_status::timeout && queue_.empty() &&
         !paused_ && !leaves_ && !stop_ && broken_.ok() && poisoned_.ok();
}

}  // namespace ascpipe
