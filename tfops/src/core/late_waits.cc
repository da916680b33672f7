#include "core/late_waits.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "core/atomics.h"
#include "core/core_status.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kSecondNs = 1000000000;
constexpr std::int64_t kStoppedNs = 2 * kSecondNs;  // a longer gap between checks means that this process was stopped
constexpr std::size_t kLineBytes = 4096;            // PIPE_BUF: a writable pipe accepts this many bytes

struct Bells {
  int first, count;
};

// Returns the bells of the workers that a wait may depend on.
Bells BellsOf(layout::WaitsFor waits_for) {
  switch (waits_for) {
    case layout::kWaitPlan:
    case layout::kWaitRead:
    case layout::kWaitCut:
      return {layout::kBellTableWorkers, layout::kBellDiskWorker - layout::kBellTableWorkers};
    case layout::kWaitKeys:
      return {layout::kBellKeyWorkers, layout::kBellTableWorkers - layout::kBellKeyWorkers};
    case layout::kWaitDisk:
      return {layout::kBellDiskWorker, 1};
    default:
      return {0, 0};
  }
}

}  // namespace

char ProcessState(int pid) {
  const int fd = open(Text("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[512];  // the name of a program has at most 16 bytes
  const ssize_t length = read(fd, text, sizeof(text));
  close(fd);
  const std::string stat(text, std::max<ssize_t>(0, length));
  const std::size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= stat.size() ? '\0' : stat[name_end + 2];
}

void SayLine(const std::string& line) {
  pollfd out = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) <= 0 || (out.revents & POLLOUT) == 0) return;
  std::string text = line.substr(0, kLineBytes - 1);
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) < ' ') byte = '?';  // so that a table name cannot inject a line
  }
  text += '\n';
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);  // a failure cannot be reported
}

const char* AdviceOn(layout::WaitsFor waits_for) {
  if (waits_for != layout::kWaitStep) return "";
  return ". If another session of the program has prefetched batches of this table, close that session";
}

std::int64_t LateWaits::WaitedNs(std::int64_t began_ns, std::int64_t now_ns) const {
  return now_ns - std::max(began_ns, resumed_ns_);
}

bool LateWaits::HasBegun(layout::WaitsFor waits_for) const {
  const Bells bells = BellsOf(waits_for);
  const layout::Bell* const first = session_.bells + bells.first;
  return bells.count == 0 ||
         std::any_of(first, first + bells.count, [](const layout::Bell& bell) { return LoadAcquire(&bell.pid) > 0; });
}

bool LateWaits::IsDue(std::int64_t began_ns, layout::WaitsFor waits_for, std::int64_t now_ns) {
  if (looked_ns_ != 0 && now_ns - looked_ns_ > kStoppedNs) {
    resumed_ns_ = now_ns;
    stopped_ns_ = 0;
  }
  looked_ns_ = now_ns;
  const std::int64_t waited_ns = WaitedNs(began_ns, now_ns);
  if (waited_ns < std::min(kSecondNs, limits_.first_ns)) {
    stopped_ns_ = 0;
    return false;
  }
  if (supervisor_pid_ > 0 && (now_ns - state_ns_ >= kSecondNs || stopped_ns_ == 0)) {
    state_ns_ = now_ns;
    if (ProcessState(supervisor_pid_) != 'T') {
      stopped_ns_ = 0;
    } else if (stopped_ns_ == 0) {
      stopped_ns_ = now_ns;
    }
  }
  if (waited_ns < limits_.first_ns) return false;
  const bool has_begun = HasBegun(waits_for);
  const std::int64_t every_ns = has_begun || start_lines_ < 2 ? limits_.every_ns : limits_.start_ns;
  if (said_ns_ != 0 && now_ns - said_ns_ < every_ns) return false;
  said_ns_ = now_ns;
  if (!has_begun) ++start_lines_;
  return true;
}

std::string LateWaits::Line(const Told& wait, std::int64_t now_ns) const {
  std::string line = "ascpipe: ";
  if (!wait.table_name.empty()) line += Text("table '", wait.table_name, "', ");
  if (wait.ticket != 0) line += Text("batch ", SequenceOf(wait.ticket), ", ");
  line += Text("a step waits for ", WaitedNs(wait.began_ns, now_ns) / kSecondNs, " s for ", wait.sentence,
               Processes(wait.waits_for), ". It goes on waiting, until wait_timeout_s (", wait_timeout_s_,
               " s); `ascpipe status` shows what each process waits for", AdviceOn(wait.waits_for));
  if (stopped_ns_ != 0 && now_ns - stopped_ns_ >= limits_.stopped_ns) {
    line +=
        Text(". The supervisor (pid ", supervisor_pid_,
             ") is stopped by a signal and replaces no worker: ", "`kill -CONT ", supervisor_pid_, "` lets it go on");
  }
  return line;
}

std::string LateWaits::Processes(layout::WaitsFor waits_for) const {
  const Bells bells = BellsOf(waits_for);
  std::string found;
  for (int bell = bells.first; bell < bells.first + bells.count; ++bell) {
    const int pid = LoadAcquire(&session_.bells[bell].pid);
    if (pid <= 0) continue;
    const char state = ProcessState(pid);
    found += Text(found.empty() ? " (pid " : ", ", pid,
                  state == 0 || state == 'Z' ? ", which has ended"
                  : state == 'T'             ? ", which is stopped by a signal"
                                             : "");
  }
  if (!found.empty()) return found + ")";
  if (bells.count == 0) return "";
  return " (which has not begun yet: it loads its kernels. If this is the first start of a version, they are compiled, "
         "which takes a minute or two, and longer on a busy machine)";
}

}  // namespace ascpipe
