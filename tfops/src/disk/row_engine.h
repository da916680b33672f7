// Reads and writes rows of row files: threads per disk, batches that are submitted and waited for.
// docs/internals/row_files.md
#ifndef ASCPIPE_DISK_ROW_ENGINE_H_
#define ASCPIPE_DISK_ROW_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "disk/device_queue.h"
#include "disk/row_batch.h"
#include "disk/row_file.h"

namespace ascpipe {

constexpr int kMostThreads = 256;  // per disk

// Threads may share it.  Of batches that are under way together, none comes first: a row is read, or written again,
// only after the batch that wrote it is over.
class RowEngine {
 public:
  // `threads` per device (st_dev): how many operations it has at once.
  explicit RowEngine(int threads) : threads_(threads) {}
  // Stops, and waits for what is in the kernel, for ever.
  ~RowEngine();
  RowEngine(const RowEngine&) = delete;
  RowEngine& operator=(const RowEngine&) = delete;

  // Adds a file; *number is then its own.
  CoreStatus Add(std::unique_ptr<RowFile> file, int* number);
  // Null: there is no such file.
  RowFile* file(int number) const;

  // Begins a batch of a file; *job is then its number.  INVALID_ARGUMENT: a request is wrong, and none is carried out.
  CoreStatus Submit(int file, BatchKind kind, const DiskBatch& batch, std::int64_t* job);
  // Whether a batch was over within that time; if so, its number ends, and its arrays are the caller's again.  A number
  // of no batch is over.
  bool Wait(std::int64_t job, std::chrono::milliseconds limit);
  // Ends what no thread has begun with ECANCELED; the batch must still be waited for.
  void Cancel(std::int64_t job);

  // Of the device of a file.
  CoreStatus Figures(int file, DiskFigures* figures) const;

  // Cancels what is queued, waits for what is in the kernel up to a limit, and ends the threads.  Those that are left
  // then are given up, and INTERNAL names the directories: a row that such a thread reads goes nowhere, but what it
  // writes may still land until the process has ended.
  CoreStatus Stop(std::chrono::milliseconds limit);

 private:
  struct Added {
    std::shared_ptr<OpenFile> open;
    std::shared_ptr<DeviceQueue> queue;
  };
  struct Submitted {
    std::shared_ptr<DiskJob> job;
    std::shared_ptr<DeviceQueue> queue;
  };

  CoreStatus Find(int number, Added* found) const;
  Submitted Find(std::int64_t job) const;

  const int threads_;
  mutable std::mutex mutex_;
  std::map<dev_t, std::shared_ptr<DeviceQueue>> queues_;
  std::vector<Added> files_;
  std::map<std::int64_t, Submitted> jobs_;
  std::int64_t last_job_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_ROW_ENGINE_H_
