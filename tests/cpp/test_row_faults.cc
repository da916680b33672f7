// Rows after errors of the disk: failures, short writes, a full disk, and a disk that does not answer.  The file
// replaces system calls.
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "check.h"
#include "disk/row_engine.h"
#include "row_batches.h"

using namespace ascpipe;
using namespace row_batches;

namespace {

// Results of the next system calls of row files.
struct Faults {
  std::atomic<int> read_error{0}, write_error{0}, sync_error{0};
  std::atomic<int> short_writes{0};
  std::atomic<int> reads{0}, writes{0}, syncs{0};
  std::atomic<bool> holds_reads{false}, holds_writes{false};

  void Hold(const std::atomic<bool>& holds) {
    std::unique_lock<std::mutex> lock(mutex);
    if (!holds) return;
    ++held;
    changed.notify_all();
    changed.wait(lock, [&] { return !holds; });
    --held;
    changed.notify_all();
  }
  void AwaitHeld(int count) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return held == count; });
  }
  void LetGo() {
    std::unique_lock<std::mutex> lock(mutex);
    holds_reads = holds_writes = false;
    changed.notify_all();
    changed.wait(lock, [&] { return held == 0; });
  }
  void Reset() { read_error = write_error = sync_error = short_writes = reads = writes = syncs = 0; }

  std::mutex mutex;
  std::condition_variable changed;
  int held = 0;
};

Faults faults;

ssize_t Fails(int error) {
  errno = error;
  return -1;
}

}  // namespace

// Replaces the function of the C library in the whole program.
extern "C" ssize_t preadv(int fd, const iovec* parts, int count, off_t offset) {
  ++faults.reads;
  faults.Hold(faults.holds_reads);
  if (faults.read_error != 0) return Fails(faults.read_error);
  return syscall(SYS_preadv, fd, parts, count, offset, 0);
}

extern "C" ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  ++faults.writes;
  faults.Hold(faults.holds_writes);
  if (faults.write_error != 0) return Fails(faults.write_error);
  const ssize_t put = syscall(SYS_pwritev, fd, parts, count, offset, 0);
  return put > 512 && faults.short_writes-- > 0 ? put - 512 : put;
}

extern "C" int fdatasync(int fd) {
  ++faults.syncs;
  const int error = faults.sync_error.exchange(0);  // reported once, as by Linux
  if (error != 0) return static_cast<int>(Fails(error));
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace {

constexpr std::int64_t kRowBytes = 128, kPerBlock = 30;

struct Set {
  explicit Set(bool buffered, int threads = 2) : engine(threads) {
    faults.Reset();
    file = Open(&engine, directory.path(), kRowBytes, buffered, 100 * kPerBlock);
  }
  ~Set() { faults.Reset(); }

  Directory directory;
  RowEngine engine;
  int file;
};

// Returns one row in each of some blocks.
Rows Scattered(std::int64_t blocks, std::uint32_t generation, std::int64_t first = 0) {
  Rows rows(kRowBytes);
  for (std::int64_t block = first; block < first + blocks; ++block) rows.Add(block * kPerBlock + 3, block, generation);
  return rows;
}

void ExpectAll(const Rows& rows, std::int32_t wanted) {
  for (const std::int32_t result : rows.results) CHECK_EQ(result, wanted);
}

}  // namespace

TEST(AReadThatFailsIsAnErrorOfItsRowsAndTheNextOneIsGood) {
  Set set(false);
  Rows rows = Scattered(20, 1);
  Write(&set.engine, set.file, &rows);
  faults.read_error = EIO;
  Run(&set.engine, set.file, BatchKind::kRead, &rows);
  ExpectAll(rows, EIO);
  for (std::size_t i = 0; i < 20; ++i) CHECK(rows.IsUntouched(i));
  CHECK_EQ(Figures(set.engine, set.file).rows_failed, 20);
  faults.read_error = 0;
  Read(&set.engine, set.file, &rows);
}

TEST(AWriteThatFailsIsAnErrorOfItsRowsAndTheOldRowsStand) {
  for (const int error : {ENOSPC, EIO}) {
    Set set(false);
    Rows before = Scattered(20, 1), after = Scattered(20, 2);
    Write(&set.engine, set.file, &before);
    faults.write_error = error;
    Run(&set.engine, set.file, BatchKind::kWrite, &after);
    ExpectAll(after, error);
    faults.write_error = 0;
    Read(&set.engine, set.file, &before);
    Write(&set.engine, set.file, &after);
    Read(&set.engine, set.file, &after);
  }
}

TEST(ABlockThatCannotBeReadIsNotWritten) {
  Set set(false);
  Rows before = Scattered(5, 1), after = Scattered(5, 2);
  Write(&set.engine, set.file, &before);
  const int writes = faults.writes;
  faults.read_error = EIO;
  Run(&set.engine, set.file, BatchKind::kWrite, &after);
  ExpectAll(after, EIO);
  CHECK_EQ(faults.writes, writes);
  faults.read_error = 0;
  Read(&set.engine, set.file, &before);
}

TEST(AShortWriteIsAnErrorOfTheRowsOfThatWriteAlone) {
  Set set(false, 1);
  Rows rows = Scattered(6, 1);
  faults.short_writes = 2;
  Run(&set.engine, set.file, BatchKind::kWrite, &rows);
  for (std::size_t i = 0; i < 6; ++i) CHECK_EQ(rows.results[i], i < 2 ? EIO : 0);
  CHECK_EQ(Figures(set.engine, set.file).rows_written, 4);
  CHECK_EQ(Figures(set.engine, set.file).rows_failed, 2);
}

TEST(WithoutODirectAWriteCountsOnlyAfterAGoodSync) {
  Set set(true);
  Rows rows = Scattered(10, 1);
  Write(&set.engine, set.file, &rows);
  CHECK_EQ(faults.syncs, 1);  // one fsync for the batch
  Read(&set.engine, set.file, &rows);
  CHECK_EQ(faults.syncs, 1);
}

TEST(AFailedSyncIsNeverTriedAgainAndFailsAllWritesSinceTheLastGoodOne) {
  Set set(true);
  Rows good = Scattered(10, 1), lost = Scattered(10, 2, 10), later = Scattered(10, 3, 20);
  Write(&set.engine, set.file, &good);
  faults.sync_error = ENOSPC;
  Run(&set.engine, set.file, BatchKind::kWrite, &lost);
  ExpectAll(lost, ENOSPC);
  CHECK_EQ(faults.syncs, 2);
  const int writes = faults.writes;
  Run(&set.engine, set.file, BatchKind::kWrite, &later);
  ExpectAll(later, ENOSPC);
  CHECK_EQ(faults.syncs, 2);
  CHECK_EQ(faults.writes, writes);
  CHECK_EQ(set.engine.file(set.file)->Sync(), ENOSPC);
  Read(&set.engine, set.file, &good);  // the synced rows stay valid
}

TEST(AReadOfABlockWaitsForItsWriteAndForNoOther) {
  Set set(false, 4);
  Rows rows = Scattered(2, 1), before = Scattered(1, 1), other = Scattered(1, 1, 1), after = Scattered(1, 2);
  Write(&set.engine, set.file, &rows);
  faults.holds_writes = true;
  std::int64_t write = 0, read = 0;
  CHECK(set.engine.Submit(set.file, BatchKind::kWrite, after.Batch(true), &write).ok());
  faults.AwaitHeld(1);
  CHECK(set.engine.Submit(set.file, BatchKind::kRead, before.Batch(false), &read).ok());
  Read(&set.engine, set.file, &other);
  CHECK(!set.engine.Wait(read, std::chrono::milliseconds(20)));
  CHECK_EQ(Figures(set.engine, set.file).delayed, 1);
  CHECK_EQ(Figures(set.engine, set.file).under_way, 1);
  faults.LetGo();
  CHECK(set.engine.Wait(write, kLong));
  CHECK(set.engine.Wait(read, kLong));
  ExpectAll(after, 0);
  ExpectAll(before, kStale);
}

TEST(ManyOperationsOfOneBlockAreDoneOneAfterTheOther) {
  Set set(false, 4);
  std::vector<Rows> batches;
  for (std::uint32_t i = 0; i < 200; ++i) {
    Rows rows(kRowBytes);
    rows.Add(i % kPerBlock, i, i + 1);
    batches.push_back(rows);
  }
  std::vector<std::int64_t> jobs(batches.size());
  faults.holds_reads = true;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    CHECK(set.engine.Submit(set.file, BatchKind::kWrite, batches[i].Batch(true), &jobs[i]).ok());
  }
  faults.AwaitHeld(1);
  CHECK_EQ(Figures(set.engine, set.file).under_way, 1);
  faults.LetGo();
  for (const std::int64_t job : jobs) CHECK(set.engine.Wait(job, kLong));
  for (const Rows& rows : batches) ExpectAll(rows, 0);
  CHECK_EQ(Figures(set.engine, set.file).deepest, 1);
}

TEST(ACancelledBatchEndsWithWhatIsUnderWay) {
  for (const bool buffered : {false, true}) {
    Set set(buffered, 3);
    Rows rows = Scattered(50, 1), others = Scattered(20, 1, 60);
    faults.holds_writes = true;
    std::int64_t job = 0, behind = 0;
    CHECK(set.engine.Submit(set.file, BatchKind::kWrite, rows.Batch(true), &job).ok());
    CHECK(set.engine.Submit(set.file, BatchKind::kWrite, others.Batch(true), &behind).ok());
    faults.AwaitHeld(3);
    set.engine.Cancel(behind);
    CHECK(set.engine.Wait(behind, std::chrono::milliseconds(0)));
    ExpectAll(others, ECANCELED);
    set.engine.Cancel(job);
    CHECK(!set.engine.Wait(job, std::chrono::milliseconds(1)));
    faults.LetGo();
    CHECK(set.engine.Wait(job, kLong));
    int good = 0;
    for (const std::int32_t result : rows.results) good += result == 0;
    CHECK_EQ(good, 3);
    CHECK_EQ(faults.syncs, buffered ? 1 : 0);
    CHECK_EQ(Figures(set.engine, set.file).queued, 0);
  }
}

TEST(AStopDoesNotWaitForADiskBeyondItsLimitAndLateRowsGoNowhere) {
  Set set(false, 2);
  Rows rows = Scattered(10, 1), asked = Scattered(10, 1);
  Write(&set.engine, set.file, &rows);
  faults.holds_reads = true;
  std::int64_t job = 0;
  CHECK(set.engine.Submit(set.file, BatchKind::kRead, asked.Batch(false), &job).ok());
  faults.AwaitHeld(2);
  CHECK(!set.engine.Wait(job, std::chrono::milliseconds(1)));
  const CoreStatus status = set.engine.Stop(std::chrono::milliseconds(30));
  CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kInternal));
  CHECK_EQ(status.text(), "reads and writes of row files have not ended within 30 ms in " + set.directory.path());
  CHECK(set.engine.Wait(job, std::chrono::milliseconds(0)));
  int late = 0, cancelled = 0;
  for (const std::int32_t result : asked.results) {
    late += result == ETIMEDOUT;
    cancelled += result == ECANCELED;
  }
  CHECK_EQ(late, 2);
  CHECK_EQ(cancelled, 8);
  faults.LetGo();
  CHECK(set.engine.Stop(kLong).ok());  // the system calls have ended
  for (std::size_t i = 0; i < 10; ++i) CHECK(asked.IsUntouched(i));
}
