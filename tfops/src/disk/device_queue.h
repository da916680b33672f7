// Queue of the operations of one disk, and the threads that execute them.
#ifndef ASCPIPE_DISK_DEVICE_QUEUE_H_
#define ASCPIPE_DISK_DEVICE_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "core/private_memory.h"
#include "disk/busy_blocks.h"
#include "disk/latency.h"
#include "disk/row_batch.h"
#include "disk/row_file.h"

namespace ascpipe {

struct OpenFile {
  explicit OpenFile(std::unique_ptr<RowFile> opened) : file(std::move(opened)) {}

  const std::unique_ptr<RowFile> file;
  BusyBlocks busy;  // guarded by the queue
};

// A submitted batch. The mutex of the queue guards all members except `file` and `batch`.
struct DiskJob {
  DiskJob(std::shared_ptr<OpenFile> of, BatchKind kind, const DiskBatch& asked)
      : file(std::move(of)), batch(file->file.get(), kind, asked) {}

  const std::shared_ptr<OpenFile> file;
  RowBatch batch;
  std::int64_t next = 0;  // index of the first operation that was not started
  std::int64_t left = 0;  // number of unfinished operations
  bool is_over = false;
};

class DeviceQueue : private CallersMemory {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts a queue. Returns RESOURCE_EXHAUSTED if threads or memory for their buffers are not available.
  static CoreStatus Start(int threads, std::shared_ptr<DeviceQueue>* queue);

  // Submits a prepared job. Returns false if the queue is stopping.
  bool Submit(const std::shared_ptr<DiskJob>& job);
  // Returns true if the job finishes within `limit`.
  bool Await(const DiskJob& job, std::chrono::milliseconds limit);
  // Cancels operations that have not started. Their result is ECANCELED. The job finishes when its last operation in
  // flight has ended.
  void Cancel(const std::shared_ptr<DiskJob>& job);
  DiskFigures Figures();

  // Cancels all queued operations.
  void BeginStop();
  // Waits for the threads. If threads are still in a system call at the deadline, EndStop abandons the threads. The
  // requests of an abandoned thread end with ETIMEDOUT, and the thread no longer touches the caller's memory. Returns
  // the directories of the row files that the abandoned threads were reading or writing.
  std::set<std::string> EndStop(Clock::time_point deadline);

 private:
  struct Operation {
    std::shared_ptr<DiskJob> job;
    std::int64_t index;

    const BlockOperation& blocks() const { return job->batch.operations()[static_cast<std::size_t>(index)]; }
    bool TakeBlocks() const { return job->file->busy.Take(blocks().first_block, blocks().block_count); }
  };
  struct Worker {
    PrivateArray<std::uint8_t> buffer{kMostWriteBytes};
    Operation operation;  // has no job if the thread is idle
    bool has_ended = false;
    std::thread thread;
  };

  bool Enter() override;
  void Leave() override;

  void Work(Worker* worker);
  bool Take(Worker* worker);
  void Note(const OperationFigures& figures);
  void Finish(Worker* worker, std::unique_lock<std::mutex>* lock);
  void End(DiskJob* job);
  void CancelRest(const std::shared_ptr<DiskJob>& job);
  void GiveUp(std::unique_lock<std::mutex>* lock);

  std::mutex mutex_;
  std::condition_variable work_;     // signals a new operation or a freed block
  std::condition_variable changed_;  // signals the end of a job or thread, or inside_ == 0
  std::deque<std::shared_ptr<DiskJob>> jobs_;
  std::list<Operation> delayed_;  // operations whose blocks are busy
  std::vector<std::unique_ptr<Worker>> workers_;
  int inside_ = 0;  // threads that use the caller's memory
  bool is_stopping_ = false;
  bool is_given_up_ = false;
  DiskFigures figures_ = {};
  Latency reads_, writes_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_DEVICE_QUEUE_H_
