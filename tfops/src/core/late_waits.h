// Says on stderr that a step waits, when it does so for long: for what, for which processes, and that it goes on.
#ifndef ASCPIPE_CORE_LATE_WAITS_H_
#define ASCPIPE_CORE_LATE_WAITS_H_

#include <cstdint>
#include <string>

#include "core/segment.h"

namespace ascpipe {

// The state of a process, as /proc/PID/stat has it ('T': stopped by a signal, 'Z': ended); 0 if there is none.
char ProcessState(int pid);

// Writes a line to stderr, unless that would block: one that reads no more must not hold up training.
void SayLine(const std::string& line);

class LateWaits {
 public:
  struct Limits {
    std::int64_t first_ns;    // a wait that lasts as long is told
    std::int64_t every_ns;    // between two lines
    std::int64_t stopped_ns;  // a supervisor that is stopped for as long is told, too
  };
  // What is told of a wait.
  struct Told {
    std::int64_t began_ns;
    const char* sentence;  // what it waits for
    layout::WaitsFor waits_for;
    std::string table_name;
    std::int64_t ticket;
  };
  static Limits Usual() { return {5000000000, 10000000000, 10000000000}; }

  // `supervisor_pid` 0: it cannot be seen.
  LateWaits(const SessionView& session, int supervisor_pid, double wait_timeout_s, const Limits& limits)
      : session_(session), supervisor_pid_(supervisor_pid), wait_timeout_s_(wait_timeout_s), limits_(limits) {}

  // Call it at least once a second, also while nothing waits: time in which it was not called does not count, as this
  // process was stopped then.  True: the line about a wait that began at `began_ns` is due.
  bool IsDue(std::int64_t began_ns, std::int64_t now_ns);
  // That line.
  std::string Line(const Told& wait, std::int64_t now_ns) const;

 private:
  std::int64_t WaitedNs(std::int64_t began_ns, std::int64_t now_ns) const;
  std::string Processes(layout::WaitsFor waits_for) const;

  const SessionView session_;
  const int supervisor_pid_;
  const double wait_timeout_s_;
  const Limits limits_;
  std::int64_t looked_ns_ = 0;
  std::int64_t resumed_ns_ = 0;  // when this process went on after it was stopped
  std::int64_t said_ns_ = 0;     // 0: nothing was said
  std::int64_t state_ns_ = 0;    // of the last look at the supervisor
  std::int64_t stopped_ns_ = 0;  // since when it is seen to be stopped; 0: it is not
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LATE_WAITS_H_
