// What a process of several ranks has: its place among them, what it exchanges with them, and its streams.
#ifndef ASCPIPE_BRIDGE_RANKS_H_
#define ASCPIPE_BRIDGE_RANKS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "peers/peers.h"
#include "peers/ranked_stream.h"

namespace ascpipe {

// What rank 0 asks this rank for, until the thread that does it takes it.
class Asks {
 public:
  void Put(PeerAsk ask) {
    if (ask.phase == AskPhase::kCollect) return;  // Peers has answered it
    std::lock_guard<std::mutex> lock(mutex_);
    asks_.push_back(std::move(ask));
    changed_.notify_all();
  }
  // False: there was none for so long, at most.
  bool Take(int timeout_ms, PeerAsk* ask) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return !asks_.empty(); })) return false;
    *ask = std::move(asks_.front());
    asks_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PeerAsk> asks_;
};

// What has become of something that rank 0 asks for, or of a look at what it does.
class Asking {
 public:
  bool IsOver(CoreStatus* status) const { return IsOver(0, status); }
  // Waits so long for it, at most.
  bool IsOver(int timeout_ms, CoreStatus* status) const {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool over = changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return is_over_; });
    if (over) *status = status_;
    return over;
  }
  // Once it is over.
  bool is_asked() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_asked_;
  }
  void End(const PeerVerdict& verdict) {
    std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    is_asked_ = verdict.kind == VerdictKind::kAsked;
    if (!verdict.cause.empty()) status_ = CoreStatus(Code::kFailedPrecondition, verdict.cause);
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_over_ = false, is_asked_ = false;
  CoreStatus status_;
};

class Ranks {
 public:
  struct Settings {
    Peers::Settings peers;
    int close_timeout_ms = 0;  // how long the end of the pipeline waits for other ranks
  };

  Ranks(std::unique_ptr<Transport> transport, Settings settings)
      : settings_(Listening(std::move(settings))), peers_(std::move(transport), &streams_, settings_.peers) {}

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  RankedStreams& streams() { return streams_; }
  Peers& peers() { return peers_; }
  Asks& asks() { return asks_; }

  // What rank 0 asks for has a number, by which it is answered.
  std::int64_t NewAsk() {
    std::lock_guard<std::mutex> lock(mutex_);
    return ++last_ask_;
  }
  // Rank 0 asks the others.  `on_change` of the settings is called when the verdict is there.
  std::shared_ptr<const Asking> Ask(std::int64_t number, AskPhase phase, const std::string& text);
  // The other ranks answer, in one line.
  void Answer(std::int64_t number, const std::string& text) { peers_.Answer(Text(number, " ", text)); }
  // Rank 0: what each other rank has answered, by rank; false: not all have yet, and the answers are kept.
  bool TakeAnswers(std::int64_t number, std::vector<std::string>* answers);

  // Another rank: an exchange in which it has nothing to do; over when rank 0 asks for something, or does another thing.
  std::shared_ptr<const Asking> BeginLook();
  std::shared_ptr<const Asking> look() {  // the one that was begun last
    std::lock_guard<std::mutex> lock(mutex_);
    return look_;
  }

  // Tells the others that this rank makes no exchange that they wait for.
  void SayFailed(PeerHeader header, std::string cause) {
    PeerRequest request;
    header.cause = std::move(cause);
    request.header = std::move(header);
    request.done = [](const PeerVerdict&, const Received&) {};
    peers_.ExchangeNext(std::move(request));
  }

  // `cause`: what ends this rank, unless its program has come to its end.
  void Leave(std::string cause = "") { peers_.Leave(settings_.close_timeout_ms, std::move(cause)); }
  void Stop() {
    Leave();
    peers_.Stop();
  }

 private:
  Settings Listening(Settings settings) {
    settings.peers.on_ask = [this](PeerAsk ask) { asks_.Put(std::move(ask)); };
    return settings;
  }

  Asks asks_;
  std::mutex mutex_;  // guards the two below, and the last one
  std::int64_t last_ask_ = 0;
  std::map<std::int64_t, std::map<int, std::string>> answers_;
  const Settings settings_;
  RankedStreams streams_;
  Peers peers_;  // its thread uses the streams
  std::shared_ptr<const Asking> look_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RANKS_H_
