#include "disk/row_engine.h"

#include <set>
#include <utility>

namespace ascpipe {

namespace {

constexpr std::chrono::hours kForEver(24 * 365);

}  // namespace

RowEngine::~RowEngine() { (void)Stop(kForEver); }

CoreStatus RowEngine::Add(std::unique_ptr<RowFile> file, int* number) {
  if (threads_ < 1 || threads_ > kMostThreads) {
    return Error(Code::kInvalidArgument, threads_, " threads per disk: 1 to ", kMostThreads);
  }
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<DeviceQueue>& queue = queues_[file->device()];
  if (queue == nullptr) {
    const CoreStatus started = DeviceQueue::Start(threads_, &queue);
    if (!started.ok()) {
      queues_.erase(file->device());
      return started;
    }
  }
  *number = static_cast<int>(files_.size());
  files_.push_back({std::make_shared<OpenFile>(std::move(file)), queue});
  return CoreStatus();
}

RowFile* RowEngine::file(int number) const {
  Added found;
  return Find(number, &found).ok() ? found.open->file.get() : nullptr;
}

CoreStatus RowEngine::Find(int number, Added* found) const {
  std::lock_guard<std::mutex> lock(mutex_);
  if (number < 0 || static_cast<std::size_t>(number) >= files_.size()) {
    return Error(Code::kInvalidArgument, "there is no row file ", number);
  }
  *found = files_[static_cast<std::size_t>(number)];
  return CoreStatus();
}

RowEngine::Submitted RowEngine::Find(std::int64_t job) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? Submitted() : found->second;
}

CoreStatus RowEngine::Submit(int file, BatchKind kind, const DiskBatch& batch, std::int64_t* job) {
  Added added;
  CoreStatus status = Find(file, &added);
  if (!status.ok()) return status;
  const auto made = std::make_shared<DiskJob>(added.open, kind, batch);
  status = made->batch.Prepare();
  if (!status.ok()) return status;
  if (!added.queue->Submit(made)) return Error(Code::kCancelled, "the row engine has stopped");
  std::lock_guard<std::mutex> lock(mutex_);
  *job = ++last_job_;
  jobs_[*job] = {made, added.queue};
  return CoreStatus();
}

bool RowEngine::Wait(std::int64_t job, std::chrono::milliseconds limit) {
  const Submitted found = Find(job);
  if (found.job == nullptr) return true;
  if (!found.queue->Await(*found.job, limit)) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  jobs_.erase(job);
  return true;
}

void RowEngine::Cancel(std::int64_t job) {
  const Submitted found = Find(job);
  if (found.job != nullptr) found.queue->Cancel(found.job);
}

CoreStatus RowEngine::Figures(int file, DiskFigures* figures) const {
  Added added;
  const CoreStatus status = Find(file, &added);
  if (status.ok()) *figures = added.queue->Figures();
  return status;
}

CoreStatus RowEngine::Stop(std::chrono::milliseconds limit) {
  const auto deadline = DeviceQueue::Clock::now() + limit;
  std::vector<std::shared_ptr<DeviceQueue>> queues;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& queue : queues_) queues.push_back(queue.second);
  }
  for (const auto& queue : queues) queue->BeginStop();
  std::string late;
  for (const auto& queue : queues) {
    for (const std::string& directory : queue->EndStop(deadline)) late += (late.empty() ? "" : ", ") + directory;
  }
  if (late.empty()) return CoreStatus();
  return Error(Code::kInternal, "reads and writes of row files have not ended within ", limit.count(), " ms in ", late);
}

}  // namespace ascpipe
