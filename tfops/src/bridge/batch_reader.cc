#include "bridge/batch_reader.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "bridge/batch_source.h"
#include "bridge/read_starts.h"
#include "bridge/status.h"
#include "core/reading_figures.h"
#include "core/splitmix.h"

namespace ascpipe {

namespace {

constexpr auto kLook = std::chrono::milliseconds(100);  // interval between checks for cancellation

// Returns the shuffle seed of a pass. Pass 0 uses the seed of the dataset.
std::uint64_t SeedOf(std::uint64_t seed, std::int64_t pass) {
  return pass == 0 ? seed : Mix(seed + kGolden * static_cast<std::uint64_t>(pass));
}

}  // namespace

BatchReader::~BatchReader() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_stopped_ = true;
  }
  changed_.notify_all();
  threads_.clear();  // joins the threads
}

tensorflow::Status BatchReader::Start() {
  const ReadPosition start = ReadStarts::Get()->Take(settings_->source);
  pass_ = start.pass;
  position_ = {start.epoch, start.consumed};
  BatchPlanArguments plan = settings_->plan;
  bool is_end = false;
  const CoreStatus status = BatchPlan(plan).Move(position_, 0, &position_, &is_end);
  if (!status.ok()) {
    ReadStarts::Get()->Restore(start);  // otherwise the next call would start a new pass
    return ToStatus(status);
  }
  if (is_end && plan.epochs != 0) {  // the checkpoint was saved at the end of a pass
    ++pass_;
    position_ = {0, 0};
  }
  plan.seed = SeedOf(plan.seed, pass_);
  arguments_ = plan;
  plan_.reset(new BatchPlan(plan));
  for (std::int64_t i = 0; i < settings_->readers; ++i) {
    threads_.emplace_back(tensorflow::Env::Default()->StartThread({}, "asc_reader", [this] { Run(); }));
  }
  is_started_ = true;
  return OkStatus();
}

tensorflow::Status BatchReader::Next(tensorflow::CancellationManager* cancellation,
                                     std::vector<tensorflow::Tensor>* batch, bool* is_end) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!is_started_) TF_RETURN_IF_ERROR(Start());
  ReadingClock clock;
  auto found = ready_.find(returned_);
  while (found == ready_.end()) {
    if (is_end_ && returned_ == taken_) {
      *is_end = true;
      return OkStatus();
    }
    if (cancellation != nullptr && cancellation->IsCancelled()) {
      return Refuse(Code::kCancelled, "the program stopped while the dataset was reading a batch");
    }
    changed_.wait_for(lock, kLook);
    layout::Reading counted{};
    counted.waited_us = clock.Lap();
    settings_->Count(counted);
    found = ready_.find(returned_);
  }
  Result result = std::move(found->second);
  ready_.erase(found);
  ++returned_;
  lock.unlock();
  changed_.notify_all();
  *is_end = false;
  if (result.status.ok()) *batch = std::move(result.tensors);
  return result.status;
}

bool BatchReader::TakeWork(Work* work) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_ready = [this] { return is_stopped_ || is_end_ || taken_ < returned_ + settings_->read_ahead; };
  work->full_us = 0;
  if (!is_ready()) {
    ReadingClock clock;
    changed_.wait(lock, is_ready);
    layout::Reading counted{};
    counted.full_us = work->full_us = clock.Lap();
    settings_->Count(counted);
  }
  if (is_stopped_ || is_end_) return false;
  EpochPosition here, after;
  if (!plan_->Move(position_, 0, &here, &is_end_).ok()) is_end_ = true;  // Start has checked the position
  if (is_end_) {
    lock.unlock();
    changed_.notify_all();
    return false;
  }
  work->part = plan_->PartOf(here, settings_->rank, &after);
  work->number = taken_++;
  work->epoch = here.epoch;
  work->after.source = settings_->source;
  work->after.pass = pass_;
  work->after.epoch = after.epoch;
  work->after.consumed = after.consumed;
  position_ = after;
  return true;
}

void BatchReader::Put(std::int64_t number, Result result) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ready_[number] = std::move(result);
  }
  changed_.notify_all();
}

void BatchReader::Run() {
  layout::Reading counted{};
  counted.readers = 1;
  settings_->Count(counted);
  const std::unique_ptr<BatchSource> source = BatchSource::Make(*settings_, arguments_, &is_stopped_);
  layout::ReadingSpan span{};
  span.source = settings_->source;
  span.thread = static_cast<std::int32_t>(syscall(SYS_gettid));
  Work work;
  while (TakeWork(&work)) {
    Result result;
    layout::Reading done{};
    span.start_ns = NanosecondsSince1970();
    result.status = source->Read(work.epoch, work.part, work.after, &done, &result.tensors);
    span.read_us = done.read_us;
    span.parse_us = done.parse_us;
    span.full_us = work.full_us;
    span.batch = work.number + 1;
    span.epoch = work.epoch;
    span.records = done.records;
    settings_->Count(done, span);
    Put(work.number, std::move(result));
  }
  counted.readers = -1;
  settings_->Count(counted);
}

}  // namespace ascpipe
