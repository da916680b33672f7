#include "core/waiter.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "core/error_codes.gen.h"
#include "core/interrupt.h"
#include "core/late_waits.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kLookAroundNs = 50000000;  // interval between checks of the lifeline

// Returns the reason for a wait as text. The reason is unknown before the wait is first polled.
const char* Sentence(layout::WaitsFor waits_for) {
  return waits_for == layout::kWaitNone ? "its turn" : layout::kWaitSentences[waits_for];
}

}  // namespace

Waiter::Waiter(const SessionView& session, const Settings& settings) : session_(session), settings_(settings) {
  ucred peer;
  socklen_t length = sizeof(peer);
  if (getsockopt(settings_.lifeline_fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) supervisor_pid_ = peer.pid;
}

Waiter::~Waiter() {
  Stop();
  if (settings_.lifeline_fd >= 0) close(settings_.lifeline_fd);
}

void Waiter::Start() {
  ChainInterrupt();
  sigset_t all, before;  // the threads of the user's program handle signals
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "asc-waiter");
    Run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Waiter::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
  }
  wanted_.notify_all();
  Wake();
  if (!thread_.joinable()) return;
  thread_.join();
  UnchainInterrupt();
}

void Waiter::Add(std::shared_ptr<Wait> wait) {
  wait->interrupts_ = InterruptCount();
  wait->until_ns_ = NowNs() + TimeoutNs();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!stop_.load()) {
      new_.push_back(std::move(wait));
      wait = nullptr;
      waiting_.fetch_add(1);
    }
  }
  if (wait != nullptr) {
    wait->Left();
    wait->Finish(Error(Code::kCancelled, "the pipeline was stopped"));
    return;
  }
  wanted_.notify_all();
  Wake();
}

bool Waiter::TryAtOnce(Wait* wait, CoreStatus* status) {
  // This check needs no lock. The waiter thread must poll a new wait if other waits are pending or the session has
  // failed.
  if (waiting_.load() > 0 || LoadAcquire(&session_.session->failed) != 0) return false;
  std::lock_guard<std::mutex> polling(polling_);
  if (waiting_.load() > 0 || failing_.load() || stop_.load() || !wait->Poll(status)) return false;
  wait->Left();
  return true;
}

void Waiter::Fail(const CoreStatus& status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failing_.load()) return;  // the first cause is reported
  failure_ = status;
  failing_.store(true);
}

void Waiter::Run() {
  BellOwner bell(session_.bells + layout::kBellTrainer, settings_.spin_us);
  LateWaits late(session_, supervisor_pid_, settings_.wait_timeout_s, LateWaits::Usual());
  while (!stop_.load()) {
    LookAround();
    SaysFirst(&bell);
    const auto oldest = std::min_element(waits_.begin(), waits_.end(),
                                         [](const std::shared_ptr<Wait>& one, const std::shared_ptr<Wait>& other) {
                                           return one->until_ns_ < other->until_ns_;
                                         });
    const std::int64_t now = NowNs();
    const std::int64_t began = oldest == waits_.end() ? now : (*oldest)->until_ns_ - TimeoutNs();
    if (late.IsDue(began, oldest == waits_.end() ? layout::kWaitNone : (*oldest)->waits_for, now)) {
      const Wait& wait = **oldest;
      // If the step waits for another rank, the class Peers reports the wait and names the other rank.
      if (wait.waits_for != layout::kWaitRanks) {
        SayLine(late.Line({began, Sentence(wait.waits_for), wait.waits_for, wait.table_name, wait.ticket}, now));
      }
    }
    if (IsIdle()) continue;
    expired_ = false;
    while (!stop_.load() && Round()) {
    }
    SaysFirst(&bell);
    // The bell is not rung for waits that end without a successful Poll, for example by a timeout. A wait that ends
    // without a ring must not count as a lost wake-up.
    bell.WaitSlice([this] { return stop_.load() || waiting_.load() == 0 || (Round() && !expired_); });
  }
  TakeNew();
  for (const auto& wait : waits_) {
    wait->Left();
    wait->Finish(Error(Code::kCancelled, "the pipeline was stopped"));
  }
  waiting_.fetch_sub(static_cast<int>(waits_.size()));
  waits_.clear();
  bell.Says(layout::kWaitNone, -1, 0);
}

bool Waiter::IsIdle() {
  if (waiting_.load() > 0) return false;
  std::unique_lock<std::mutex> lock(mutex_);
  const bool any = wanted_.wait_for(lock, std::chrono::milliseconds(idle_slice_ms_),
                                    [this] { return stop_.load() || waiting_.load() > 0; });
  idle_slice_ms_ = any ? layout::kSliceMs : IdleSlice(idle_slice_ms_);
  if (any) looked_ns_ = 0;  // the last check may be outdated
  return true;
}

bool Waiter::TakeNew() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (new_.empty()) return false;
  std::move(new_.begin(), new_.end(), std::back_inserter(waits_));
  new_.clear();
  return true;
}

bool Waiter::Round() {
  if (waiting_.load() == 0) return false;
  std::unique_lock<std::mutex> polling(polling_);
  bool any = TakeNew();
  for (auto at = waits_.begin(); at != waits_.end();) {
    CoreStatus status;
    if (!End(at->get(), &status)) {
      ++at;
      continue;
    }
    const std::shared_ptr<Wait> over = *at;
    at = waits_.erase(at);
    over->Left();
    waiting_.fetch_sub(1);
    polling.unlock();  // Finish may add the next wait
    over->Finish(status);
    polling.lock();
    any = true;
  }
  return any;
}

bool Waiter::End(Wait* wait, CoreStatus* status) {
  if (failing_.load()) {
    std::lock_guard<std::mutex> lock(mutex_);
    *status = failure_;
  } else if (wait->cancelled_.load()) {
    *status = Error(Code::kCancelled, "the step was cancelled");
  } else if (InterruptCount() != wait->interrupts_) {
    *status = Error(Code::kCancelled, "interrupted by Ctrl-C while waiting for ", Sentence(wait->waits_for));
  } else if (wait->Poll(status)) {
    return true;
  } else if (!wait->during_hold && patience_.load() > 0) {
    wait->until_ns_ = NowNs() + TimeoutNs();
    return false;
  } else if (NowNs() > wait->until_ns_) {
    *status = TimedOut(*wait);
  } else {
    return false;
  }
  expired_ = true;
  return true;
}

CoreStatus Waiter::TimedOut(const Wait& wait) const {
  const std::string ticket = wait.ticket != 0 ? Text(", batch ", SequenceOf(wait.ticket)) : "";
  return Error(kE123, "table '", wait.table_name, "'", ticket, ": waited ", settings_.wait_timeout_s,
               " s (wait_timeout_s) for ", Sentence(wait.waits_for),
               ". Nothing was lost; `ascpipe status` shows what each process waits for", AdviceOn(wait.waits_for));
}

void Waiter::LookAround() {
  const layout::Session* session = session_.session;
  const std::uint32_t failed = LoadAcquire(&session->failed);
  if (failed != 0) {
    const std::size_t bytes = std::min<std::size_t>(session->failure_bytes, layout::kFailureTextBytes);
    const std::string text(session->failure_text, bytes);
    if (failed < 100 || failed > 999) {
      Fail(Error(kE301, "the session failed with the unknown code ", failed,
                 ". Its record is damaged; restart the program"));
      return;
    }
    const std::string code = Text("E", failed);
    Fail(CoreStatus(failed >= 300 && failed < 400 ? Code::kDataLoss : Code::kInternal,
                    text.compare(0, code.size(), code) == 0 ? text : Text(code, ": ", text)));
    return;
  }
  const std::int64_t now = NowNs();
  if (now - looked_ns_ < kLookAroundNs) return;
  looked_ns_ = now;
  pollfd lifeline = {settings_.lifeline_fd, POLLRDHUP, 0};
  if (settings_.lifeline_fd >= 0 && poll(&lifeline, 1, 0) > 0 &&
      (lifeline.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) {
    Fail(Error(kE110, kSupervisorGone[0], supervisor_pid_, kSupervisorGone[1]));
  }
}

void Waiter::SaysFirst(BellOwner* bell) {
  if (waits_.empty()) {
    bell->Says(layout::kWaitNone, -1, 0);
  } else {
    bell->Says(waits_.front()->waits_for, waits_.front()->table, waits_.front()->ticket);
  }
}

}  // namespace ascpipe
