#include "bridge/read_again.h"

#include <utility>

#include "bridge/status.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

namespace {

class ReadAgainWait : public AsyncWait {
 public:
  ReadAgainWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended, int stream)
      : AsyncWait(std::move(pipeline), step, ctx, std::move(ended)), stream_(stream) {}

  bool Poll(CoreStatus* status) override {
    if (!asked_) {
      waits_for = layout::kWaitStep;
      if (!pipeline().ranks()->peers().MayClaim(stream_)) return false;
      waits_for = layout::kWaitLease;
      if (!step().reads().empty() && !pipeline().lease().TryShare(step().id())) return false;
    }
    waits_for = layout::kWaitRead;
    for (const PendingRead& read : step().reads()) {
      ticket = read.ticket().number();
      table_name = read.table().name();
      if (read.IsClosed()) {
        const Status closed = ClosedWhileRead(table_name, ticket);
        *status = CoreStatus(static_cast<Code>(closed.code()), closed.error_message());
        return true;
      }
      if (!asked_) {
        read.AskAgain();
        pipeline().RingTableWorker(read.ring(), read.index());
      } else if (!read.IsAnswered()) {
        return false;
      }
    }
    if (asked_) return true;
    asked_ = true;
    return step().reads().empty();
  }

 protected:
  void Proceed() override { End(Status::OK()); }

 private:
  const int stream_;
  bool asked_ = false;
};

}  // namespace

void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended, int stream) {
  std::make_shared<ReadAgainWait>(std::move(pipeline), step, ctx, std::move(ended), stream)->Begin();
}

}  // namespace ascpipe
