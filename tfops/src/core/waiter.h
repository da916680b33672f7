// The one thread that polls all waits of the trainer, so that no op sleeps on a thread of TensorFlow.  A wait whose
// condition holds already, while no other one waits, is over at once, on the calling thread.
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

// A wait.  `Poll`, `Left` and `Finish` never sleep; one wait is polled at a time.
class Wait {
 public:
  virtual ~Wait() = default;

  // True: the wait is over, with *status.  False: it goes on, and `waits_for` has its reason.
  virtual bool Poll(CoreStatus* status) = 0;
  // The wait is over, with success or an error, and is polled no more.  No other wait is polled during this call.
  virtual void Left() {}
  // Called once on the waiter thread, after Left; `status` comes from Poll or says why the wait was ended.
  virtual void Finish(const CoreStatus& status) = 0;

  // Any thread: the step was cancelled.
  void Cancel() { cancelled_.store(true); }

  layout::WaitsFor waits_for = layout::kWaitNone;
  bool during_hold = false;  // times out even while BePatient holds for the others
  int table = -1;
  std::string table_name;
  std::int64_t ticket = 0;

 private:
  friend class Waiter;
  std::atomic<bool> cancelled_{false};
  std::int64_t until_ns_ = 0;
  std::uint64_t interrupts_ = 0;  // InterruptCount when it began
};

class Waiter {
 public:
  struct Settings {
    int spin_us;
    double wait_timeout_s;
    int lifeline_fd;  // its hang-up means that the supervisor is gone; the waiter closes it
  };

  Waiter(const SessionView& session, const Settings& settings);
  ~Waiter();

  // Starts the thread, and chains a handler to SIGINT that counts and then calls the previous one.
  void Start();
  // Ends every wait with CANCELLED and the thread; idempotent.
  void Stop();

  // Any thread.  `Finish` is called on the waiter thread; if that thread calls Add, after Add has returned.
  void Add(std::shared_ptr<Wait> wait);
  // Any thread.  Polls a wait that was not added, unless another wait comes first.  True: the wait is over, with
  // *status, and `Finish` is not called.  False: Add it.
  bool TryAtOnce(Wait* wait, CoreStatus* status);
  // Makes the thread poll again, after a change within this process.
  void Wake() const { Ring(session_.bells + layout::kBellTrainer); }

  // Ends all waits with `status`, present and future ones.
  void Fail(const CoreStatus& status);

  // During a save or restore, which may take long, other waits do not time out.  Calls are counted.
  void BePatient(bool patient) { patience_.fetch_add(patient ? 1 : -1); }

  double wait_timeout_s() const { return settings_.wait_timeout_s; }

 private:
  void Run();
  bool Round();
  // Sleeps while there is no wait, at most a slice, and not on the bell, so that publishers do not wake this thread for
  // nothing.  True: there is no wait, or there was none: the session is looked at before the first one.
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
  std::atomic<int> waiting_{0};             // number of waits, those of new_ included
  std::int64_t looked_ns_ = 0;
  int idle_slice_ms_ = layout::kSliceMs;
  bool expired_ = false;  // a round ended a wait because of time or a stop, not because of a word

  std::mutex mutex_;
  std::condition_variable wanted_;  // signals changes of new_ and stop_
  std::vector<std::shared_ptr<Wait>> new_;
  CoreStatus failure_;  // set once
  std::atomic<bool> failing_{false};
  std::atomic<int> patience_{0};
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_WAITER_H_
