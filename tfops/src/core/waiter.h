// Thread that polls all waits of the trainer, so that no op blocks a TensorFlow thread. A wait finishes immediately on
// the calling thread if its condition already holds and no other wait is pending.
#ifndef ASCPIPE_CORE_WAITER_H_
#define ASCPIPE_CORE_WAITER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/bell.h"
#include "core/core_status.h"
#include "core/segment.h"

namespace ascpipe {

// A wait of an op. `Poll`, `Left` and `Finish` must never sleep. Only one wait is polled at a time.
class Wait {
 public:
  virtual ~Wait() = default;

  // Returns true and sets *status if the wait is over. If the wait is not over, sets `waits_for` to the reason for the
  // wait.
  virtual bool Poll(CoreStatus* status) = 0;
  // The waiter calls Left when the wait is over, after success or an error. The waiter polls no other wait during a
  // call of Left.
  virtual void Left() {}
  // Finish is called once, after Left. The waiter thread calls Finish. After Stop, Add calls Finish. `status` is the
  // status of Poll, or the reason for aborting the wait.
  virtual void Finish(const CoreStatus& status) = 0;

  // Cancels the wait. Any thread may call Cancel when the step is cancelled.
  void Cancel() { cancelled_.store(true); }

  layout::WaitsFor waits_for = layout::kWaitNone;
  bool during_hold = false;  // times out even while BePatient is active
  int table = -1;
  std::string table_name;
  std::int64_t ticket = 0;

 private:
  friend class Waiter;
  std::atomic<bool> cancelled_{false};
  std::int64_t until_ns_ = 0;
  std::uint64_t interrupts_ = 0;  // InterruptCount at the start
};

class Waiter {
 public:
  struct Settings {
    int spin_us;
    double wait_timeout_s;
    int lifeline_fd;  // a hang-up means that the supervisor has exited; the waiter closes it
  };

  Waiter(const SessionView& session, const Settings& settings);
  ~Waiter();

  // Starts the thread and installs the SIGINT handler (core/interrupt.h).
  void Start();
  // Ends every wait with CANCELLED, and then ends the thread. Stop is idempotent.
  void Stop();

  // Adds a wait. Add is thread-safe. After Stop, Add finishes the wait immediately with CANCELLED.
  void Add(std::shared_ptr<Wait> wait);
  // Polls a wait before it is added, unless other waits are pending. If the wait is over, returns true and sets *status
  // without calling Finish. If TryAtOnce returns false, the caller must add the wait. TryAtOnce is thread-safe.
  bool TryAtOnce(Wait* wait, CoreStatus* status);
  // Wakes the waiter thread, so that it polls again after a change within this process.
  void Wake() const { Ring(session_.bells + layout::kBellTrainer); }

  // Ends all current and future waits with `status`.
  void Fail(const CoreStatus& status);

  // Disables timeouts during a save or restore, except timeouts of waits with `during_hold`. Calls may be nested.
  void BePatient(bool patient) { patience_.fetch_add(patient ? 1 : -1); }

  double wait_timeout_s() const { return settings_.wait_timeout_s; }

 private:
  void Run();
  bool Round();
  // If there is no wait, sleeps for at most one slice and returns true. An idle thread does not sleep on the bell, so
  // that publishers do not wake the thread unnecessarily. If IsIdle returns true, the thread checks the session before
  // it polls the next wait.
  bool IsIdle();
  bool TakeNew();
  std::int64_t TimeoutNs() const { return static_cast<std::int64_t>(settings_.wait_timeout_s * 1e9); }
  bool End(Wait* wait, CoreStatus* status);
  void LookAround();
  void SaysFirst(BellOwner* bell);
  CoreStatus TimedOut(const Wait& wait) const;

  const SessionView session_;
  const Settings settings_;
  int supervisor_pid_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
  std::mutex polling_;                      // before mutex_
  std::list<std::shared_ptr<Wait>> waits_;  // oldest first; changed by the thread while it holds polling_
  std::atomic<int> waiting_{0};             // number of waits, including new_
  std::int64_t looked_ns_ = 0;
  int idle_slice_ms_ = layout::kSliceMs;
  bool expired_ = false;  // a round ended a wait without a successful Poll

  std::mutex mutex_;
  std::condition_variable wanted_;  // signals changes of new_ and stop_
  std::vector<std::shared_ptr<Wait>> new_;
  CoreStatus failure_;  // set once
  std::atomic<bool> failing_{false};
  std::atomic<int> patience_{0};
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_WAITER_H_
