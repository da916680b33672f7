#include "disk/device_queue.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace ascpipe {

namespace {

constexpr std::chrono::seconds kIdleSlice(10);
constexpr std::size_t kMostDelayed = 64;  // a thread that requests work scans all delayed operations
constexpr std::int64_t kOperationsARing = 128;

// Returns true if the results of an operation are final when the operation ends. The results of a buffered write are
// final only after the sync.
bool CountsAtOnce(const DiskJob& job) { return job.batch.kind() == BatchKind::kRead || job.file->file->is_direct(); }

// Blocks all signals. If SIGXFSZ is blocked, a write beyond the file size limit returns an error instead of killing the
// process.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

CoreStatus DeviceQueue::Start(int threads, std::shared_ptr<DeviceQueue>* queue) {
  const auto started = std::make_shared<DeviceQueue>();
  const NoSignals no_signals;  // threads inherit the signal mask
  for (int i = 0; i < threads; ++i) {
    std::unique_ptr<Worker> worker(new Worker);
    if (worker->buffer.get() == nullptr) {
      started->BeginStop();
      started->EndStop(Clock::now() + kIdleSlice);
      return Error(Code::kResourceExhausted, "no memory for the buffers of ", threads, " threads");
    }
    Worker* const own = worker.get();
    std::unique_lock<std::mutex> lock(started->mutex_);
    try {
      // Each thread keeps the queue alive, even after EndStop has abandoned the thread.
      own->thread = std::thread([started, own] { started->Work(own); });
    } catch (const std::system_error& error) {
      lock.unlock();
      started->BeginStop();
      started->EndStop(Clock::now() + kIdleSlice);
      return Error(Code::kResourceExhausted, "thread ", i + 1, " of ", threads, " of a disk: ", error.what());
    }
    started->workers_.push_back(std::move(worker));
  }
  *queue = started;
  return CoreStatus();
}

bool DeviceQueue::Submit(const std::shared_ptr<DiskJob>& job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_stopping_) return false;
  job->left = static_cast<std::int64_t>(job->batch.operations().size());
  figures_.queued += job->left;
  if (job->left == 0) {
    job->is_over = true;
    return true;
  }
  jobs_.push_back(job);
  if (job->left == 1) {
    work_.notify_one();
  } else {
    work_.notify_all();
  }
  return true;
}

bool DeviceQueue::Await(const DiskJob& job, std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, limit, [&job] { return job.is_over; });
}

void DeviceQueue::Cancel(const std::shared_ptr<DiskJob>& job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!job->is_over) CancelRest(job);
}

DiskFigures DeviceQueue::Figures() {
  std::lock_guard<std::mutex> lock(mutex_);
  DiskFigures figures = figures_;
  figures.reads = reads_.total();
  figures.writes = writes_.total();
  figures.read_p50_us = reads_.Quantile(0.5);
  figures.read_p99_us = reads_.Quantile(0.99);
  figures.write_p50_us = writes_.Quantile(0.5);
  figures.write_p99_us = writes_.Quantile(0.99);
  return figures;
}

void DeviceQueue::BeginStop() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_stopping_ = true;
  std::set<std::shared_ptr<DiskJob>> jobs(jobs_.begin(), jobs_.end());
  for (const Operation& operation : delayed_) jobs.insert(operation.job);
  for (const std::shared_ptr<DiskJob>& job : jobs) CancelRest(job);
  work_.notify_all();
}

std::set<std::string> DeviceQueue::EndStop(Clock::time_point deadline) {
  std::set<std::string> directories;
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_until(lock, deadline, [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const std::unique_ptr<Worker>& worker) { return worker->has_ended; });
  });
  GiveUp(&lock);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    const bool is_late = !worker->has_ended && worker->operation.job != nullptr;
    if (is_late) directories.insert(worker->operation.job->file->file->directory());
    if (!worker->thread.joinable()) continue;
    if (worker->has_ended) {
      lock.unlock();  // the thread is joined without the lock
      worker->thread.join();
      lock.lock();
    } else {
      worker->thread.detach();
    }
  }
  return directories;
}

bool DeviceQueue::Enter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (is_given_up_) return false;
  ++inside_;
  return true;
}

void DeviceQueue::Leave() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (--inside_ == 0 && is_given_up_) changed_.notify_all();
}

void DeviceQueue::Work(Worker* worker) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopping_) {
    if (!Take(worker)) {
      work_.wait_for(lock, kIdleSlice);
      continue;
    }
    --figures_.queued;
    figures_.deepest = std::max(figures_.deepest, ++figures_.under_way);
    lock.unlock();
    const Operation& operation = worker->operation;
    const RowBatch& batch = operation.job->batch;
    const OperationFigures figures = batch.Run(operation.blocks(), this, worker->buffer.get());
    if (CountsAtOnce(*operation.job) && Enter()) {
      batch.EndRequests(operation.blocks());
      Leave();
    }
    lock.lock();
    --figures_.under_way;
    Note(figures);
    Finish(worker, &lock);
  }
  worker->has_ended = true;
  changed_.notify_all();
}

// Assigns to the worker an operation whose blocks are not busy. Returns false if the blocks of all waiting operations
// are busy.
bool DeviceQueue::Take(Worker* worker) {
  for (auto at = delayed_.begin(); at != delayed_.end(); ++at) {
    if (!at->TakeBlocks()) continue;
    worker->operation = *at;
    delayed_.erase(at);
    return true;
  }
  while (!jobs_.empty() && delayed_.size() < kMostDelayed) {
    const Operation operation = {jobs_.front(), jobs_.front()->next++};
    if (operation.job->next == static_cast<std::int64_t>(operation.job->batch.operations().size())) jobs_.pop_front();
    if (operation.TakeBlocks()) {
      worker->operation = operation;
      return true;
    }
    ++figures_.delayed;
    delayed_.push_back(operation);
  }
  return false;
}

void DeviceQueue::Note(const OperationFigures& figures) {
  if (figures.read_ns > 0) reads_.Note(figures.read_ns);
  if (figures.write_ns > 0) writes_.Note(figures.write_ns);
  figures_.read_bytes += figures.read_bytes;
  figures_.written_bytes += figures.write_bytes;
  figures_.rows_read += figures.rows_read;
  figures_.rows_written += figures.rows_written;
  figures_.rows_failed += figures.rows_failed;
  figures_.rows_damaged += figures.rows_damaged;
  figures_.damaged_neighbours += figures.damaged_neighbours;
}

void DeviceQueue::Finish(Worker* worker, std::unique_lock<std::mutex>* lock) {
  const std::shared_ptr<DiskJob> job = worker->operation.job;
  if (is_given_up_) return;
  job->file->busy.Release(worker->operation.blocks().first_block, worker->operation.blocks().block_count);
  if (!delayed_.empty()) work_.notify_all();
  if (--job->left == 0) {
    if (job->batch.kind() == BatchKind::kWrite && !job->file->file->is_direct()) {
      lock->unlock();
      const int error = job->file->file->Sync();  // written rows are durable only after this
      lock->lock();
      if (is_given_up_) return;
      if (error != 0) job->batch.FailGood(error);
      job->batch.EndRequests();
    }
    End(job.get());
    job->batch.RingBell();
  } else if (job->left % kOperationsARing == 0 && CountsAtOnce(*job)) {
    job->batch.RingBell();
  }
  worker->operation.job.reset();
}

void DeviceQueue::End(DiskJob* job) {
  job->is_over = true;
  changed_.notify_all();
}

void DeviceQueue::CancelRest(const std::shared_ptr<DiskJob>& job) {
  const auto cancel = [this, &job](std::int64_t index) {
    job->batch.Store(job->batch.operations()[static_cast<std::size_t>(index)], ECANCELED);
    --job->left;
    --figures_.queued;
  };
  for (auto at = delayed_.begin(); at != delayed_.end();) {
    if (at->job == job) {
      cancel(at->index);
      at = delayed_.erase(at);
    } else {
      ++at;
    }
  }
  const std::int64_t count = static_cast<std::int64_t>(job->batch.operations().size());
  while (job->next < count) cancel(job->next++);
  jobs_.erase(std::remove(jobs_.begin(), jobs_.end(), job), jobs_.end());
  if (job->left > 0) return;
  // No operation is in flight. Writes without O_DIRECT were not synced, so they fail with ECANCELED.
  const bool is_synced = job->batch.kind() == BatchKind::kRead || job->file->file->is_direct();
  if (!is_synced) job->batch.FailGood(ECANCELED);
  End(job.get());
}

void DeviceQueue::GiveUp(std::unique_lock<std::mutex>* lock) {
  is_given_up_ = true;
  while (inside_ > 0) changed_.wait_for(*lock, kIdleSlice);  // a thread copies some rows
  for (const std::unique_ptr<Worker>& worker : workers_) {
    const std::shared_ptr<DiskJob>& job = worker->operation.job;
    if (worker->has_ended || job == nullptr) continue;
    job->batch.Store(worker->operation.blocks(), ETIMEDOUT);
    if (job->batch.kind() == BatchKind::kWrite && !job->file->file->is_direct()) job->batch.FailGood(ETIMEDOUT);
    End(job.get());
  }
}

}  // namespace ascpipe
