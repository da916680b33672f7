// Messages on stderr about a step that waits for a long time.  They name the reason, and a stopped supervisor.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "check.h"
#include "core/bell.h"
#include "core/late_waits.h"
#include "segments.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kMs = 1000000, kSecond = 1000 * kMs;
constexpr std::int64_t kBegan = 1000 * kSecond;

// A process that sleeps, that is stopped, or that has exited and was reaped.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~Child() {
    if (pid_ > 0) End();
  }
  int Stop() {
    CHECK_EQ(kill(pid_, SIGSTOP), 0);
    int status;
    CHECK_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    return pid_;
  }
  int End() {
    const int pid = pid_;
    kill(pid_, SIGKILL);
    CHECK_EQ(waitpid(pid_, nullptr, 0), pid_);
    pid_ = 0;
    return pid;
  }
  int pid() const { return pid_; }

 private:
  int pid_;
};

struct Fixture {
  explicit Fixture(int supervisor_pid = 0)
      : segment(MakeSegment(layout::kSessionBytes, nullptr, nullptr)),
        session(segment->base()),
        late(session, supervisor_pid, 600, LateWaits::Usual()) {}
  // Checks every 50 ms, like the waiter, until `end` after the begin.  Returns the number of lines that were due.
  int Until(std::int64_t end, layout::WaitsFor waits_for = layout::kWaitLease) {
    int due = 0;
    for (; now < kBegan + end; now += 50 * kMs) due += late.IsDue(kBegan, waits_for, now) ? 1 : 0;
    return due;
  }
  std::string Line(layout::WaitsFor waits_for = layout::kWaitPlan, const char* table = "user") {
    return late.Line({kBegan, layout::kWaitSentences[waits_for], waits_for, table, (std::int64_t{3} << 48) + 117}, now);
  }

  std::unique_ptr<Segment> segment;
  SessionView session;
  LateWaits late;
  std::int64_t now = kBegan;
};

void CheckHas(const std::string& text, const std::string& part, bool is_there = true) {
  if ((text.find(part) != std::string::npos) != is_there) check::Failed(__FILE__, __LINE__, text);
}

}  // namespace

TEST(AWaitIsToldAfterFiveSecondsAndThenOnceInTen) {
  Fixture fixture;
  CHECK_EQ(fixture.Until(5 * kSecond), 0);
  CHECK_EQ(fixture.Until(6 * kSecond), 1);
  CHECK_EQ(fixture.Until(15 * kSecond), 0);
  CHECK_EQ(fixture.Until(16 * kSecond), 1);
  CHECK_EQ(fixture.Until(36 * kSecond), 2);
}

TEST(AWaitForAProcessThatHasNotBegunIsToldTwiceAndThenOnceInAMinute) {
  Fixture fixture;
  CHECK_EQ(fixture.Until(16 * kSecond, layout::kWaitPlan), 2);
  CHECK_EQ(fixture.Until(75 * kSecond, layout::kWaitPlan), 0);
  CHECK_EQ(fixture.Until(180 * kSecond, layout::kWaitPlan), 2);
  fixture.session.bells[layout::kBellTableWorkers].pid = getpid();
  CHECK_EQ(fixture.Until(211 * kSecond, layout::kWaitPlan), 4);
}

TEST(WaitsThatAreShortAreNotToldHoweverManyThereAre) {
  Fixture fixture;
  for (std::int64_t now = kBegan; now < kBegan + 60 * kSecond; now += 50 * kMs) {
    CHECK(!fixture.late.IsDue(now - now % (4 * kSecond), layout::kWaitPlan, now));
  }
}

TEST(TimeInWhichTheTrainerWasStoppedDoesNotCount) {
  Fixture fixture;
  CHECK_EQ(fixture.Until(4 * kSecond), 0);
  fixture.now += 60 * kSecond;
  CHECK_EQ(fixture.Until(68 * kSecond), 0);
  CHECK_EQ(fixture.Until(70 * kSecond), 1);
  CheckHas(fixture.Line(), "waits for 6 s");
}

TEST(AWaitForABatchOfAnotherSessionIsToldToCloseThatSession) {
  Fixture fixture;
  fixture.Until(6 * kSecond);
  CheckHas(fixture.Line(layout::kWaitStep), "prefetched batches of this table, close that session");
  CheckHas(fixture.Line(layout::kWaitCut), "close that session", false);
}

TEST(TheLineHasTableTicketReasonAndLimit) {
  Fixture fixture;
  fixture.Until(6 * kSecond);
  CHECK_EQ(
      fixture.Line(),
      std::string("ascpipe: table 'user', batch 117, a step waits for 6 s for the table worker to plan it "
                  "(which has not begun yet: it loads its kernels. If this is the first start of a version, they are "
                  "compiled, which takes a minute or two, and longer on a busy machine). It goes on waiting, until "
                  "wait_timeout_s (600 s); `ascpipe status` shows what each process waits for"));
  CheckHas(fixture.Line(layout::kWaitLease, ""), "ascpipe: batch 117, a step waits for 6 s for another step to end.");
}

TEST(TheProcessesThatAreWaitedForAreNamedWithTheirState) {
  Fixture fixture;
  Child runs, stopped, ended;
  layout::Bell* const bells = fixture.session.bells;
  bells[layout::kBellTableWorkers].pid = runs.pid();
  bells[layout::kBellTableWorkers + 1].pid = stopped.Stop();
  bells[layout::kBellKeyWorkers].pid = ended.End();
  fixture.Until(6 * kSecond);
  CheckHas(fixture.Line(layout::kWaitCut),
           Text("apply a change (pid ", runs.pid(), ", ", stopped.pid(), ", which is stopped by a signal). It"));
  CheckHas(fixture.Line(layout::kWaitKeys),
           Text("its keys (pid ", bells[layout::kBellKeyWorkers].pid, ", which has ended). It"));
  CheckHas(fixture.Line(layout::kWaitDisk), "(pid ", false);
}

TEST(ASupervisorThatIsStoppedForTenSecondsIsToldWithItsCure) {
  Child supervisor;
  Fixture fixture(supervisor.pid());
  fixture.Until(3 * kSecond);
  supervisor.Stop();
  fixture.Until(6 * kSecond);
  CheckHas(fixture.Line(), "kill -CONT", false);
  fixture.Until(12 * kSecond);
  CheckHas(fixture.Line(), "kill -CONT", false);
  fixture.Until(15 * kSecond);
  CheckHas(fixture.Line(), Text(". The supervisor (pid ", supervisor.pid(),
                                ") is stopped by a signal and replaces no "
                                "worker: `kill -CONT ",
                                supervisor.pid(), "` lets it go on"));
  kill(supervisor.pid(), SIGCONT);
  while (ProcessState(supervisor.pid()) == 'T') {
  }
  fixture.Until(18 * kSecond);
  CheckHas(fixture.Line(), "kill -CONT", false);
}

TEST(TheStateOfAProcessIsReadWhateverItsName) {
  CHECK_EQ(ProcessState(getpid()), 'R');
  Child child;
  CHECK_EQ(ProcessState(child.Stop()), 'T');
  CHECK_EQ(ProcessState(child.End()), '\0');
}

TEST(ALineGoesToStderrAndControlCharactersForgeNone) {
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  SayLine("table 'a\nb'");
  dup2(before, STDERR_FILENO);
  char text[64];
  const ssize_t length = read(ends[0], text, sizeof(text));
  CHECK_EQ(std::string(text, length), std::string("table 'a?b'\n"));
  for (int fd : {ends[0], ends[1], before}) close(fd);
}

TEST(AReaderOfStderrThatReadsNoMoreHoldsUpNothing) {
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  CHECK_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  while (write(ends[1], "x", 1) == 1) {
  }
  CHECK_EQ(fcntl(ends[1], F_SETFL, 0), 0);
  const int before = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  SayLine("this is not read");  // returns although the pipe is full
  dup2(before, STDERR_FILENO);
  for (int fd : {ends[0], ends[1], before}) close(fd);
}
