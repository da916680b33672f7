// Asynchronous I/O of batches of rows, with a thread pool per disk.
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

// The class is thread-safe. Batches in flight are executed in any order. Read or rewrite a row only after the batch
// that wrote the row has finished.
class RowEngine {
 public:
  // `threads` is the maximum number of concurrent operations per device (st_dev).
  explicit RowEngine(int threads) : threads_(threads) {}
  // Stops the engine, and waits without a limit for system calls in flight.
  ~RowEngine();
  RowEngine(const RowEngine&) = delete;
  RowEngine& operator=(const RowEngine&) = delete;

  // Adds a file and returns its number in *number.
  CoreStatus Add(std::unique_ptr<RowFile> file, int* number);
  // Returns null if no file has the number `number`.
  RowFile* file(int number) const;

  // Submits a batch for a file and returns the number of the batch in *job. Returns INVALID_ARGUMENT, and executes
  // nothing, if a request is invalid.
  CoreStatus Submit(int file, BatchKind kind, const DiskBatch& batch, std::int64_t* job);
  // Returns true if the batch finishes within `limit`. If Wait returns true, the number of the batch is released and
  // the engine no longer uses the arrays of the batch. Wait also returns true for an unknown number.
  bool Wait(std::int64_t job, std::chrono::milliseconds limit);
  // Cancels operations that have not started. Their result is ECANCELED. The caller must still wait for the batch.
  void Cancel(std::int64_t job);

  // Returns the statistics of the device that stores a file.
  CoreStatus Figures(int file, DiskFigures* figures) const;

  // Cancels queued operations, waits up to `limit` for system calls in flight, and ends the threads. If threads are
  // still in a system call, Stop abandons the threads and returns INTERNAL. The error names the directories of the row
  // files that the abandoned threads use. Rows that an abandoned thread reads are discarded. Rows that an abandoned
  // thread writes may still reach the disk until the process exits.
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
