// State of this process in a program with several ranks: rank, exchanges with other ranks, and streams.
#ifndef ASCPIPE_BRIDGE_RANKS_H_
#define ASCPIPE_BRIDGE_RANKS_H_

#include <time.h>

#include <atomic>
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

#include "peers/answers.h"
#include "peers/peers.h"
#include "peers/ranked_stream.h"

namespace ascpipe {

// Queue of requests of rank 0 to this rank.
class Asks {
 public:
  void Put(PeerAsk ask) {
    if (ask.phase == AskPhase::kCollect) return;  // Peers has answered the request
    std::lock_guard<std::mutex> lock(mutex_);
    asks_.push_back(std::move(ask));
    changed_.notify_all();
  }
  // Removes the first request from the queue. Returns false if no request arrives within the timeout.
  bool Take(int timeout_ms, PeerAsk* ask) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return !asks_.empty(); }))
      return false;
    *ask = std::move(asks_.front());
    asks_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<PeerAsk> asks_;
};

// Result of a request of rank 0, or of an exchange in which an idle rank waits for a request.
class Asking {
 public:
  bool IsOver(CoreStatus* status) const { return IsOver(0, status); }
  // Waits for the result. Returns false after the timeout.
  bool IsOver(int timeout_ms, CoreStatus* status) const {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool over = changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return is_over_; });
    if (over) *status = status_;
    return over;
  }
  // Returns true if rank 0 has sent a request. Call is_asked after the exchange.
  bool is_asked() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_asked_;
  }
  // Returns true if rank 0 has sent kBusy or kAsk (PeerVerdict::is_busy).
  bool is_busy() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_busy_;
  }
  // Stores the verdict. Returns true if the request was abandoned and the other ranks are already working on it.
  bool End(const PeerVerdict& verdict) {
    std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
    is_asked_ = verdict.kind == VerdictKind::kAsked;
    is_busy_ = verdict.is_busy;
    if (!verdict.cause.empty()) status_ = CoreStatus(Code::kFailedPrecondition, verdict.cause);
    changed_.notify_all();
    return is_abandoned_ && is_asked_;
  }
  // Abandons the request. Returns true if the other ranks are already working on the request.
  bool Abandon() {
    std::lock_guard<std::mutex> lock(mutex_);
    is_abandoned_ = true;
    return is_asked_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool is_over_ = false, is_asked_ = false, is_busy_ = false, is_abandoned_ = false;
  CoreStatus status_;
};

// CPU time of the threads that work on requests of rank 0. The CPU time grows while the threads make progress.
class WorkClocks {
 public:
  // Counts the CPU time of the calling thread until End is called. Returns the number to pass to End.
  int Begin();
  void End(int number);
  std::int64_t Units() const;  // CPU time in units of 10 ms

 private:
  static std::int64_t TimeOf(clockid_t clock);

  mutable std::mutex mutex_;
  int last_ = 0;
  std::map<int, clockid_t> clocks_;
  std::map<int, std::int64_t> begun_ns_;
  std::int64_t ended_ns_ = 0;  // CPU time of finished work
};

class Ranks {
 public:
  struct Settings {
    Peers::Settings peers;
    int close_timeout_ms = 0;  // maximum time that the end of the pipeline waits for other ranks
  };

  Ranks(std::unique_ptr<Transport> transport, Settings settings)
      : settings_(Listening(std::move(settings))), peers_(std::move(transport), &streams_, settings_.peers) {}

  int rank() const { return peers_.rank(); }
  int size() const { return peers_.size(); }
  RankedStreams& streams() { return streams_; }
  Peers& peers() { return peers_; }
  Asks& asks() { return asks_; }

  // Returns the number of a new request of rank 0. Answers to a request contain the number of the request.
  std::int64_t NewAsk() {
    std::lock_guard<std::mutex> lock(mutex_);
    return answers_.Open();
  }
  // Sends a request of rank 0 to the other ranks. The callback `on_change` of the settings is called when the verdict
  // arrives.
  std::shared_ptr<Asking> Ask(std::int64_t number, AskPhase phase, const std::string& text);
  // Abandons a request of rank 0. `changes` is true if the request changes tables and this rank has not made the
  // change. If the other ranks are already working on the request, they receive an unsuccessful END. If `changes` is
  // also true, the tables of the ranks then differ, and no rank may continue to train.
  void Abandon(std::int64_t number, bool changes, Asking* asking);
  // Sends this rank's answer to a request of rank 0. The answer is one line, so `text` must not contain a line break.
  void Answer(std::int64_t number, const std::string& text) { peers_.Answer(Text(number, " ", text)); }
  // Returns true if all other ranks have answered a request of rank 0. *answers receives the answers, indexed by rank.
  // An answer is "" if the rank has not answered yet.
  bool TakeAnswers(std::int64_t number, std::vector<std::string>* answers);
  // Drops the current and later answers to a request of rank 0.
  void DropAnswers(std::int64_t number);

  // Begins an exchange in which this rank is idle. Only ranks other than rank 0 call BeginLook. The exchange ends
  // when rank 0 sends a request or another message.
  std::shared_ptr<const Asking> BeginLook();
  std::shared_ptr<const Asking> look() {  // returns the exchange that was begun last
    std::lock_guard<std::mutex> lock(mutex_);
    return look_;
  }

  WorkClocks& work() { return work_; }
  std::atomic<int>& steps() { return steps_; }  // number of running steps

  // Notifies the other ranks that this rank will not take part in an exchange for which they wait.
  void SayFailed(PeerHeader header, std::string cause) {
    PeerRequest request;
    header.cause = std::move(cause);
    request.header = std::move(header);
    request.done = [](const PeerVerdict&, const Received&) {};
    peers_.ExchangeNext(std::move(request));
  }

  // Announces that this rank exits. `cause` is the error that ends this rank, or empty after a normal end of the
  // program.
  void Leave(std::string cause = "") { peers_.Leave(settings_.close_timeout_ms, std::move(cause)); }
  void Stop() {
    Leave();
    peers_.Stop();
  }

 private:
  Settings Listening(Settings settings) {
    settings.peers.on_ask = [this](PeerAsk ask) { asks_.Put(std::move(ask)); };
    settings.peers.work = [this] { return work_.Units(); };
    settings.peers.has_steps = [this] { return steps_.load() > 0; };
    return settings;
  }

  void Drop(std::int64_t number, bool changes);

  Asks asks_;
  WorkClocks work_;
  std::atomic<int> steps_{0};
  std::mutex mutex_;  // guards answers_ and look_
  Answers answers_;
  const Settings settings_;
  RankedStreams streams_;
  Peers peers_;  // its thread uses the streams
  std::shared_ptr<const Asking> look_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RANKS_H_
