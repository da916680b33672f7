// The end of a step: a resource in TensorFlow's step container, which goes when the step has ended, also badly.
#ifndef ASCPIPE_BRIDGE_STEP_END_H_
#define ASCPIPE_BRIDGE_STEP_END_H_

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bridge/pipeline.h"
#include "core/ticket.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace ascpipe {

// A number for whoever is going to have the lease.
Lease::Step NextStep();

// A step of one session run.  Its destructor closes the tickets that the step claimed, then gives the lease
// back: in the other order another step could claim while these tickets still look as if they may be trained.
class StepEnd : public tensorflow::ResourceBase {
 public:
  explicit StepEnd(std::shared_ptr<Pipeline> pipeline);
  ~StepEnd() override;

  // The one of the step that `ctx` is in.  The caller gets one reference.
  static tensorflow::Status Of(tensorflow::OpKernelContext* ctx, const std::shared_ptr<Pipeline>& pipeline,
                               StepEnd** step);

  Lease::Step id() const { return id_; }
  // Refuses a second ticket of one table of one stream.
  tensorflow::Status Uses(const Stream& stream, const Table& table, std::int64_t ticket);
  // A step trains or changes tables, not both: which of the two came first would be left to chance.  Of
  // waits that are polled.
  bool MayTrain() const { return !cuts_; }
  bool MayCut() const { return !trains_; }
  void Trains() { trains_ = true; }
  void Cuts() { cuts_ = true; }
  // The step has claimed or read this ticket; it is closed at the end.
  void Claimed(TicketHold hold);
  // The step has claimed this ticket for the table: handles of its rows are valid until the end.
  void BeginHandles(Table* table, std::int64_t ticket);

  std::string DebugString() const override { return "ascpipe step"; }

 private:
  const Lease::Step id_;
  const std::shared_ptr<Pipeline> pipeline_;
  bool trains_ = false;
  bool cuts_ = false;
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::int64_t> tickets_;
  std::vector<TicketHold> claimed_;
  std::vector<Table*> handled_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_END_H_
