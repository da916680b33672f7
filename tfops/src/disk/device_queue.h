// The operations of one disk: threads that carry them out, and the queue in front of them.
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
  BusyBlocks busy;  // the queue's
};

// A batch on its way.  All but `file` and `batch` is the queue's.
struct DiskJob {
  DiskJob(std::shared_ptr<OpenFile> of, BatchKind kind, const DiskBatch& asked)
      : file(std::move(of)), batch(file->file.get(), kind, asked) {}

  const std::shared_ptr<OpenFile> file;
  RowBatch batch;
  std::int64_t next = 0;  // operation that no thread has looked at
  std::int64_t left = 0;  // operations that are not over
  bool is_over = false;
};

class DeviceQueue : private CallersMemory {
 public:
  using Clock = std::chrono::steady_clock;

  // RESOURCE_EXHAUSTED: there are no threads, or no memory for their buffers.
  static CoreStatus Start(int threads, std::shared_ptr<DeviceQueue>* queue);

  // The job is prepared.  False: the queue stops.
  bool Submit(const std::shared_ptr<DiskJob>& job);
  // Whether the job was over within that time.
  bool Await(const DiskJob& job, std::chrono::milliseconds limit);
  // What no thread has begun ends with ECANCELED.  The job is over when what is under way has ended.
  void Cancel(const std::shared_ptr<DiskJob>& job);
  DiskFigures Figures();

  // Cancels all that is queued.
  void BeginStop();
  // Waits for the threads.  Those that are still in the kernel at the deadline are given up: their requests end with
  // ETIMEDOUT, no memory of the caller is touched any more, and the directories of their files are returned.
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
    Operation operation;  // no job: it has none
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
  std::condition_variable work_;     // there is an operation, or a block is free again
  std::condition_variable changed_;  // a job is over, a thread has ended, or the last one has left the caller's memory
  std::deque<std::shared_ptr<DiskJob>> jobs_;
  std::list<Operation> delayed_;  // their blocks are busy
  std::vector<std::unique_ptr<Worker>> workers_;
  int inside_ = 0;  // threads at the caller's memory
  bool is_stopping_ = false;
  bool is_given_up_ = false;
  DiskFigures figures_ = {};
  Latency reads_, writes_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_DEVICE_QUEUE_H_
