#include "bridge/read_again.h"

#include <memory>
#include <utility>
#include <vector>

#include "bridge/row_reading.h"
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
      AskAgain();
    }
    for (std::size_t i = next_; i < step().reads().size(); ++i) {
      const PendingRead& read = step().reads()[i];
      ticket = read.ticket().number();
      table_name = read.table().name();
      if (read.IsClosed()) {
        const Status closed = ClosedWhileRead(table_name, ticket);
        *status = CoreStatus(static_cast<Code>(closed.code()), closed.error_message());
        return true;
      }
      waits_for = layout::kWaitRead;
      if (!read.IsAnswered()) return false;
    }
    waits_for = layout::kWaitDisk;
    return next_ == step().reads().size() || readings_[next_] == nullptr || readings_[next_]->MayCopy();
  }

 protected:
  // One table after the other: none is kept from other evaluations while this one waits for another table.
  void Proceed() override {
    for (; next_ < step().reads().size(); ++next_) {
      const PendingRead& read = step().reads()[next_];
      RowReading* const reading = readings_[next_].get();
      if (reading != nullptr && !reading->is_copying() && !reading->MayCopy()) {
        Again();
        return;
      }
      const bool goes_on = reading != nullptr && reading->is_copying();
      const Status status = goes_on ? reading->CopyAsked() : read.CopyAgain(reading);
      if (!status.ok()) {
        End(status);
        return;
      }
      if (reading != nullptr && reading->Ask(&pipeline())) {
        Again();
        return;
      }
      if (reading != nullptr) step().Reads(read.slots(), reading->End());
      read.Finish();
    }
    End(Status::OK());
  }

 private:
  // The epochs stand before the workers look.
  void AskAgain() {
    for (const PendingRead& read : step().reads()) {
      readings_.emplace_back(read.table().is_on_disk() ? new RowReading(&read.table()) : nullptr);
      if (readings_.back() != nullptr) readings_.back()->Begin();
    }
    for (const PendingRead& read : step().reads()) {
      read.AskAgain();
      pipeline().RingTableWorker(read.part().ring(), read.part().index());
    }
    asked_ = true;
  }

  const int stream_;
  bool asked_ = false;
  std::size_t next_ = 0;  // of the reads, to be copied
  std::vector<std::unique_ptr<RowReading>> readings_;  // of the reads; null: no row of the table is on disk
};

}  // namespace

void ReadAgain(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended, int stream) {
  std::make_shared<ReadAgainWait>(std::move(pipeline), step, ctx, std::move(ended), stream)->Begin();
}

}  // namespace ascpipe
