// Waits on the waiter thread, and the ways in which they end.
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstring>

#include "check.h"
#include "core/atomics.h"
#include "core/waiter.h"
#include "segments.h"

using namespace ascpipe;

namespace {

// Wait for a word in memory.  `Result` sleeps until the wait has ended.
class WordWait : public Wait {
 public:
  explicit WordWait(std::uint32_t* word) : word_(word) {
    table_name = "user";
    ticket = 4;
    waits_for = layout::kWaitPlan;
  }
  bool Poll(CoreStatus*) override { return LoadAcquire(word_) != 0; }
  void Finish(const CoreStatus& status) override {
    std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    ++finished_;
    changed_.notify_all();
  }
  CoreStatus Result() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return finished_ > 0; });
    CHECK_EQ(finished_, 1);
    return status_;
  }

 private:
  std::uint32_t* word_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int finished_ = 0;
  CoreStatus status_;
};

struct Fixture {
  explicit Fixture(double timeout_s = 30.0)
      : segment(MakeSegment(layout::kSessionBytes, nullptr, nullptr)), session(segment->base()) {
    int ends[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    supervisor = ends[0];
    waiter.reset(new Waiter(session, {10, timeout_s, ends[1]}));
    waiter->Start();
  }
  ~Fixture() {
    waiter.reset();
    if (supervisor >= 0) close(supervisor);
  }
  std::shared_ptr<WordWait> Add() {
    auto wait = std::make_shared<WordWait>(&word);
    waiter->Add(wait);
    return wait;
  }

  std::unique_ptr<Segment> segment;
  SessionView session;
  int supervisor;
  std::uint32_t word = 0;
  std::unique_ptr<Waiter> waiter;
};

void CheckEnds(const CoreStatus& status, Code code, const char* text) {
  CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(code));
  if (status.text().find(text) == std::string::npos) check::Failed(__FILE__, __LINE__, status.text());
}

}  // namespace

TEST(AWaitEndsWhenItsWordIsPublished) {
  Fixture fixture;
  const auto wait = fixture.Add();
  Exchange(&fixture.word, 1u);
  Ring(fixture.session.bells + layout::kBellTrainer);
  CHECK(wait->Result().ok());
}

TEST(WhatIsThereAlreadyIsNotWaitedFor) {
  Fixture fixture;
  WordWait there(&fixture.word);
  CoreStatus status;
  CHECK(!fixture.waiter->TryAtOnce(&there, &status));
  Exchange(&fixture.word, 1u);
  CHECK(fixture.waiter->TryAtOnce(&there, &status) && status.ok());
  fixture.waiter->Stop();
  CHECK(!fixture.waiter->TryAtOnce(&there, &status));
}

TEST(WhoWaitsAlreadyComesFirst) {
  Fixture fixture;
  const auto first = fixture.Add();
  std::uint32_t mine = 1;
  WordWait second(&mine);
  CoreStatus status;
  CHECK(!fixture.waiter->TryAtOnce(&second, &status));
  Exchange(&fixture.word, 1u);
  fixture.waiter->Wake();
  CHECK(first->Result().ok());
  CHECK(fixture.waiter->TryAtOnce(&second, &status) && status.ok());
}

TEST(AFailedPipelineLetsNobodyOnAtOnce) {
  Fixture fixture;
  fixture.waiter->Fail(Error(Code::kInternal, "E101: a worker"));
  std::uint32_t mine = 1;
  WordWait wait(&mine);
  CoreStatus status;
  CHECK(!fixture.waiter->TryAtOnce(&wait, &status));
}

TEST(ASessionThatFailedWhileNobodyWaitedLetsNobodyOnAlthoughItsWordIsThere) {
  Fixture fixture;
  usleep(400000);  // the thread checks less and less often
  layout::Session* session = fixture.session.session;
  std::strcpy(session->failure_text, "E301: a row is damaged");
  session->failure_bytes = std::strlen(session->failure_text);
  Exchange(&session->failed, 301u);
  fixture.word = 1;
  WordWait wait(&fixture.word);
  CoreStatus status;
  CHECK(!fixture.waiter->TryAtOnce(&wait, &status));
  CheckEnds(fixture.Add()->Result(), Code::kDataLoss, "E301: a row is damaged");
}

TEST(ASupervisorThatDiedWhileNobodyWaitedIsSeenByTheFirstWait) {
  Fixture fixture;
  usleep(400000);  // the thread checks less and less often
  close(fixture.supervisor);
  fixture.supervisor = -1;
  fixture.word = 1;
  CheckEnds(fixture.Add()->Result(), Code::kFailedPrecondition, "E110");
}

TEST(WhereNobodyWaitsTheThreadIsNotWokenByTheBell) {
  Fixture fixture;
  const auto wait = fixture.Add();
  Exchange(&fixture.word, 1u);
  fixture.waiter->Wake();
  CHECK(wait->Result().ok());
  layout::Bell* bell = fixture.session.bells + layout::kBellTrainer;
  const std::int64_t until = NowNs() + 10000000000;
  while (LoadAcquire(&bell->waiting) != 0 && NowNs() < until) std::this_thread::yield();
  const std::uint32_t before = LoadAcquire(&bell->futex);
  for (int i = 0; i < 100; ++i) fixture.waiter->Wake();
  CHECK_EQ(LoadAcquire(&bell->futex), before);
  Exchange(&fixture.word, 0u);
  const auto next = fixture.Add();
  Exchange(&fixture.word, 1u);
  fixture.waiter->Wake();
  CHECK(next->Result().ok());
}

TEST(ThousandsOfPublicationsLoseNoWakeUp) {
  Fixture fixture;
  for (int i = 0; i < 3000; ++i) {
    StoreRelease(&fixture.word, 0u);
    const auto wait = fixture.Add();
    Exchange(&fixture.word, 1u);
    Ring(fixture.session.bells + layout::kBellTrainer);
    CHECK(wait->Result().ok());
  }
  CHECK_EQ(fixture.session.bells[layout::kBellTrainer].late, 0u);
}

TEST(AWordThatNobodyRingsForIsFoundAndCounted) {
  Fixture fixture;
  const layout::Bell* bell = fixture.session.bells + layout::kBellTrainer;
  for (int attempt = 0; attempt < 20 && LoadAcquire(&bell->late) == 0; ++attempt) {
    StoreRelease(&fixture.word, 0u);
    const auto wait = fixture.Add();
    while (LoadAcquire(&bell->waiting) == 0) std::this_thread::yield();
    usleep(5000);  // the thread has checked the word for the last time and sleeps; otherwise the next attempt succeeds
    Exchange(&fixture.word, 1u);
    CHECK(wait->Result().ok());
    usleep(50000);  // nothing rings the bell in this time, not even the next attempt
  }
  fixture.waiter->Stop();
  CHECK(LoadAcquire(&bell->late) > 0);
}

TEST(ACancelledWaitEnds) {
  Fixture fixture;
  const auto wait = fixture.Add();
  wait->Cancel();
  fixture.waiter->Wake();
  CheckEnds(wait->Result(), Code::kCancelled, "cancelled");
  CHECK_EQ(fixture.session.bells[layout::kBellTrainer].late, 0u);
}

TEST(AWaitHasATimeoutThatNamesWhatItWaitsFor) {
  Fixture fixture(0.05);
  CheckEnds(fixture.Add()->Result(), Code::kInternal,
            "table 'user', batch 4: waited 0.05 s (wait_timeout_s) for the table worker to plan it");
}

TEST(StoppingEndsEveryWaitAndLaterOnesAtOnce) {
  Fixture fixture;
  const auto first = fixture.Add(), second = fixture.Add();
  fixture.waiter->Stop();
  CheckEnds(first->Result(), Code::kCancelled, "stopped");
  CheckEnds(second->Result(), Code::kCancelled, "stopped");
  CheckEnds(fixture.Add()->Result(), Code::kCancelled, "stopped");
}

TEST(ADeadSupervisorEndsEveryWait) {
  Fixture fixture;
  const auto wait = fixture.Add();
  close(fixture.supervisor);
  fixture.supervisor = -1;
  CheckEnds(wait->Result(), Code::kFailedPrecondition, "E110: The ascpipe supervisor (pid");
  CheckEnds(fixture.Add()->Result(), Code::kFailedPrecondition, "E110");
}

TEST(AFailedSessionEndsEveryWaitWithItsText) {
  Fixture fixture;
  const auto wait = fixture.Add();
  const char text[] = "E140: key worker 3 restarted 5 times";
  layout::Session* session = fixture.session.session;
  std::memcpy(session->failure_text, text, sizeof(text) - 1);
  session->failure_bytes = sizeof(text) - 1;
  Exchange(&session->failed, 140u);
  CheckEnds(wait->Result(), Code::kInternal, text);
}

TEST(CtrlCEndsTheWaitsBeforeItAndThenDoesWhatItDid) {
  static volatile std::sig_atomic_t chained = 0;
  std::signal(SIGINT, [](int) { chained = chained + 1; });
  {
    Fixture fixture;
    const auto wait = fixture.Add();
    std::raise(SIGINT);
    CheckEnds(wait->Result(), Code::kCancelled, "Ctrl-C");
    CHECK_EQ(chained, 1);
    const auto later = fixture.Add();
    Exchange(&fixture.word, 1u);
    fixture.waiter->Wake();
    CHECK(later->Result().ok());
  }
  std::raise(SIGINT);
  CHECK_EQ(chained, 2);
  std::signal(SIGINT, SIG_DFL);
}
