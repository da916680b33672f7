// One thread on which every wait of the trainer stands, so that no op sleeps on a thread of TensorFlow.  What need not
// be waited for, since all is there and nobody waits already, goes on at once on the thread that asks.
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

// Something that is waited for.  `Poll`, `Left` and `Finish` never sleep; of all waits one is polled at a time.
class Wait {
 public:
  virtual ~Wait() = default;

  // True: the wait is over, with *status.  False: it goes on, and `waits_for` says for what.
  virtual bool Poll(CoreStatus* status) = 0;
  // The wait is over, well or badly: it is polled no more.  No other one is polled meanwhile.
  virtual void Left() {}
  // Called once on the waiter thread, after Left; `status` is what Poll said, or why the wait was ended.
  virtual void Finish(const CoreStatus& status) = 0;

  // Any thread: the step was cancelled.
  void Cancel() { cancelled_.store(true); }

  layout::WaitsFor waits_for = layout::kWaitNone;
  bool during_hold = false;  // runs out of time also while the others are told to be patient
  int table = -1;
  std::string table_name;
  std::int64_t ticket = 0;

 private:
  friend class Waiter;
  std::atomic<bool> cancelled_{false};
  std::int64_t until_ns_ = 0;
  std::uint64_t interrupts_ = 0;  // Ctrl-C's before it began
};

class Waiter {
 public:
  struct Settings {
    int spin_us;
    double wait_timeout_s;
    int lifeline_fd;  // its hang-up means that the supervisor is gone; the waiter's to close
  };

  Waiter(const SessionView& session, const Settings& settings);
  ~Waiter();

  // Starts the thread, and chains a handler to SIGINT that counts and then does what was done before.
  void Start();
  // Ends every wait with CANCELLED and the thread; idempotent.
  void Stop();

  // Any thread.  `Finish` is called on the waiter thread, never before Add returns to a caller that is it.
  void Add(std::shared_ptr<Wait> wait);
  // Any thread.  Polls a wait that was not added, unless somebody waits already, whose turn it is.  True: the wait is
  // over, with *status, and `Finish` is not called.  False: Add it.
  bool TryAtOnce(Wait* wait, CoreStatus* status);
  // Looks at the waits again: something of this process has changed.
  void Wake() { Ring(session_.bells + layout::kBellTrainer); }

  // Ends all waits with `status`, now and from now on.
  void Fail(const CoreStatus& status);

  // While somebody saves or restores, which takes its time, waits for that do not run out of theirs.  Counted.
  void BePatient(bool patient) { patience_.fetch_add(patient ? 1 : -1); }

  double wait_timeout_s() const { return settings_.wait_timeout_s; }

 private:
  void Run();
  bool Round();
  // Sleeps while nobody waits, at most a slice, and away from the bell, so that those who publish a word need not wake
  // this thread for nothing.  True: nobody waits.
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
  std::list<std::shared_ptr<Wait>> waits_;  // oldest first; changed by the thread, while it is polling
  std::atomic<int> waiting_{0};             // how many there are, those of new_ included
  std::int64_t looked_ns_ = 0;
  bool expired_ = false;  // a round ended a wait because of time or a stop, not because of a word

  std::mutex mutex_;
  std::condition_variable wanted_;  // of new_ and stop_
  std::vector<std::shared_ptr<Wait>> new_;
  CoreStatus failure_;  // set once
  std::atomic<bool> failing_{false};
  std::atomic<int> patience_{0};
};


}  // namespace ascpipe

#endif  // ASCPIPE_CORE_WAITER_H_
