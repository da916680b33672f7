#include "input/row_group_reader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace ascpipe {

namespace {

constexpr auto kStopLook = std::chrono::milliseconds(20);  // interval between checks whether the reader was stopped

}  // namespace

// A row group that a thread decodes. The thread is detached and shares ownership of the Loading object. The destructor
// must not wait for the thread, because the caller of the destructor may hold the interpreter lock that the thread
// needs.
struct RowGroupReader::Loading {
  std::size_t number;  // number of the row group
  std::mutex mutex;
  std::condition_variable done;
  bool is_done = false;
  CoreStatus status;
  std::shared_ptr<const RowGroup> group;
};

std::shared_ptr<RowGroupReader::Loading> RowGroupReader::Begin(std::size_t group) const {
  const auto loading = std::make_shared<Loading>();
  loading->number = group;
  const std::shared_ptr<const RowGroups> groups = groups_;
  std::thread([loading, groups] {
    std::shared_ptr<const RowGroup> loaded;
    CoreStatus status = RowGroup::Load(groups->ArgumentsOf(loading->number), &loaded);
    std::lock_guard<std::mutex> lock(loading->mutex);
    loading->status = std::move(status);
    loading->group = std::move(loaded);
    loading->is_done = true;
    loading->done.notify_all();
  }).detach();
  return loading;
}

CoreStatus RowGroupReader::Get(std::size_t group, std::shared_ptr<const RowGroup>* found) {
  if (current_ == nullptr || current_->number != group) {
    current_ = next_ != nullptr && next_->number == group ? std::move(next_) : Begin(group);
    next_ = nullptr;
  }
  std::unique_lock<std::mutex> lock(current_->mutex);
  while (!current_->is_done) {
    if (is_stopped_->load()) return Error(Code::kCancelled, "the iterator ended while it was reading a row group");
    current_->done.wait_for(lock, kStopLook);
  }
  *found = current_->group;
  return current_->status;
}

const RowOrder& RowGroupReader::OrderOf(std::int64_t epoch) {
  if (order_ == nullptr || order_->epoch() != epoch) order_.reset(new RowOrder(*groups_, plan_, epoch));
  return *order_;
}

CoreStatus RowGroupReader::Read(std::int64_t epoch, SequencePart part, std::vector<RowRun>* runs) {
  const RowOrder& order = OrderOf(epoch);
  const std::int64_t end = part.first + part.count;
  for (std::int64_t at = part.first; at < end;) {
    place_ = order.PlaceOf(at);
    const std::size_t group = order.GroupAt(place_);
    const std::int64_t until = std::min(end, order.EndOf(place_));
    RowRun run = {nullptr, groups_->groups()[group].first, {}};
    order.RowsOf(place_, at, until, &run.rows);
    const CoreStatus status = Get(group, &run.group);
    if (!status.ok()) return status;
    runs->push_back(std::move(run));
    at = until;
  }
  return CoreStatus();
}

void RowGroupReader::Prefetch() {
  if (current_ == nullptr || next_ != nullptr) return;
  std::size_t group = 0;
  if (place_ + 1 < groups_->groups().size()) {
    group = order_->GroupAt(place_ + 1);
  } else {
    const std::int64_t following = order_->epoch() + 1;
    if (plan_.epochs != BatchPlan::kEndless && following >= plan_.epochs) return;
    group = RowOrder(*groups_, plan_, following).GroupAt(0);
  }
  if (group != current_->number) next_ = Begin(group);
}

}  // namespace ascpipe
