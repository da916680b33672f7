// Messages on stderr about long waits of a step. A message contains the reason for the wait and the processes that the
// step waits for.
#ifndef ASCPIPE_CORE_LATE_WAITS_H_
#define ASCPIPE_CORE_LATE_WAITS_H_

#include <cstdint>
#include <string>

#include "core/segment.h"

namespace ascpipe {

// Returns the state of a process from /proc/PID/stat ('T': stopped, 'Z': zombie). Returns 0 if the process does not
// exist.
char ProcessState(int pid);

// Writes a line to stderr unless the write would block, because a blocked reader of stderr must not delay training.
void SayLine(const std::string& line);

// Returns advice to append to a message about a wait, or an empty text.
const char* AdviceOn(layout::WaitsFor waits_for);

class LateWaits {
 public:
  struct Limits {
    std::int64_t first_ns;    // minimum duration of a reported wait
    std::int64_t every_ns;    // interval between two lines
    std::int64_t start_ns;    // this interval after two lines about a process that has not begun
    std::int64_t stopped_ns;  // minimum time after which a stopped supervisor is reported
  };
  // Content of a message.
  struct Told {
    std::int64_t began_ns;
    const char* sentence;  // the reason of the wait
    layout::WaitsFor waits_for;
    std::string table_name;
    std::int64_t ticket;
  };
  static Limits Usual() { return {5000000000, 10000000000, 60000000000, 10000000000}; }

  // `supervisor_pid` is 0 if this process cannot see the process of the supervisor.
  LateWaits(const SessionView& session, int supervisor_pid, double wait_timeout_s, const Limits& limits)
      : session_(session), supervisor_pid_(supervisor_pid), wait_timeout_s_(wait_timeout_s), limits_(limits) {}

  // Returns true if it is time to write a line about the wait that began at `began_ns`. Call IsDue at least once per
  // second, even while no wait is pending. If more than two seconds pass between two calls, IsDue assumes that this
  // process was stopped, and does not count the time as waiting.
  bool IsDue(std::int64_t began_ns, layout::WaitsFor waits_for, std::int64_t now_ns);
  // Returns the line about a wait.
  std::string Line(const Told& wait, std::int64_t now_ns) const;

 private:
  std::int64_t WaitedNs(std::int64_t began_ns, std::int64_t now_ns) const;
  std::string Processes(layout::WaitsFor waits_for) const;
  bool HasBegun(layout::WaitsFor waits_for) const;

  const SessionView session_;
  const int supervisor_pid_;
  const double wait_timeout_s_;
  const Limits limits_;
  std::int64_t looked_ns_ = 0;
  std::int64_t resumed_ns_ = 0;  // time at which this process last resumed after it was stopped
  std::int64_t said_ns_ = 0;     // time of the last line; 0: none
  int start_lines_ = 0;          // number of lines about processes that had not begun
  std::int64_t state_ns_ = 0;    // time of the last check of the supervisor
  std::int64_t stopped_ns_ = 0;  // time of the first check that found the supervisor stopped; 0: not stopped
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LATE_WAITS_H_
