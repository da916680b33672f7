#include "bridge/plan_group.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "bridge/parallel.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {

constexpr std::int64_t kIdsOfBlock = 16384;  // about 10 us of copying

// The waits of a plan op. A plan op ends when its last wait ends. The table workers are rung once for all waits that
// end immediately, so that a worker does not wake up separately for each table. A wait that ends later rings the table
// workers at its end.
class PlanGroup : public std::enable_shared_from_this<PlanGroup> {
 public:
  PlanGroup(std::shared_ptr<Pipeline> pipeline, OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done)
      : ctx_(ctx), end_(EndsOp(ctx, std::move(done))), pipeline_(std::move(pipeline)) {}

  // Takes ownership of one reference to `step`.
  void Begin(StepEnd* step, std::vector<PlanRequest> requests) {
    const std::shared_ptr<PlanGroup> self = shared_from_this();
    stream_ = requests.front().stream;
    left_ = requests.size();
    for (PlanRequest& request : requests) {
      step->Ref();
      request.rings = false;
      waits_.push_back(MakePlanWait(pipeline_, step, std::move(request), ctx_,
                                    [self](const Status& status) { self->HasEnded(status); }));
    }
    step->Unref();
    const Waits waits = waits_;  // the plan op may end before Begin returns
    Waits over, later;
    for (const std::shared_ptr<PlanWait>& wait : waits) (wait->IsOver() ? over : later).push_back(wait);
    silent_ = over.size();
    for (const std::shared_ptr<PlanWait>& wait : later) wait->WaitForIt();
    if (over.empty()) return;
    std::int64_t ids = 1;
    for (const std::shared_ptr<PlanWait>& wait : over) ids += wait->ids();
    const std::int64_t count = static_cast<std::int64_t>(over.size());
    ShareBlocks(ctx_, count, std::max<std::int64_t>(1, kIdsOfBlock * count / ids),
                [&over](std::int64_t begin, std::int64_t end) {
                  for (; begin < end; ++begin) over[static_cast<std::size_t>(begin)]->GoOn();
                });
  }

 private:
  using Waits = std::vector<std::shared_ptr<PlanWait>>;

  // The first error ends the remaining waits, because the step has failed.
  void HasEnded(const Status& status) {
    Waits cancelled;
    std::shared_ptr<Pipeline> pipeline;
    Status result;
    bool is_last, rings;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      pipeline = pipeline_;
      if (!status.ok() && status_.ok()) cancelled = waits_;
      status_.Update(status);
      is_last = --left_ == 0;
      rings = silent_ == 0 || --silent_ == 0;
      if (is_last) {
        waits_.clear();  // the waits keep this group alive
        pipeline_.reset();
        result = status_;
      }
    }
    if (rings && stream_->training()) stream_->gate().RingTableWorkers();
    for (const std::shared_ptr<PlanWait>& wait : cancelled) wait->Cancel();
    if (!cancelled.empty()) pipeline->waiter().Wake();
    cancelled.clear();
    pipeline.reset();
    if (is_last) end_(result);
  }

  OpKernelContext* const ctx_;
  const Stream* stream_ = nullptr;
  const Ended end_;
  std::mutex mutex_;  // guards the members below after all waits are created
  std::shared_ptr<Pipeline> pipeline_;
  std::size_t left_ = 0, silent_ = 0;
  Waits waits_;
  Status status_;
};

}  // namespace

void BeginPlanWaits(std::shared_ptr<Pipeline> pipeline, StepEnd* step, std::vector<PlanRequest> requests,
                    OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done) {
  std::make_shared<PlanGroup>(std::move(pipeline), ctx, std::move(done))->Begin(step, std::move(requests));
}

}  // namespace ascpipe
