// A wait of an asynchronous op: the step can cancel it, and it ends exactly once.
#ifndef ASCPIPE_BRIDGE_ASYNC_WAIT_H_
#define ASCPIPE_BRIDGE_ASYNC_WAIT_H_

#include <functional>
#include <memory>

#include "bridge/pipeline.h"
#include "bridge/step_end.h"
#include "core/waiter.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// What a wait calls when it has ended.
using Ended = std::function<void(const tensorflow::Status&)>;

// Ends the op with its only wait.
Ended EndsOp(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

// Subclasses say when the wait is over (Poll) and what to do then (Proceed, on a thread of TensorFlow's).
class AsyncWait : public Wait, public std::enable_shared_from_this<AsyncWait> {
 public:
  // Takes over one reference to `step`.
  AsyncWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended);
  ~AsyncWait() override { DropStep(); }

  // Goes on at once if there is nothing to wait for; otherwise begins to wait.
  void Begin() { IsOver() ? GoOn() : WaitForIt(); }
  // The same in parts.  Whether there is nothing to wait for: then call GoOn, else WaitForIt.
  bool IsOver();
  void GoOn();
  void WaitForIt();  // ends at once if the step is cancelled already

  void Finish(const CoreStatus& status) final;

 protected:
  // After a successful Poll.  Ends with exactly one call of End or Again.
  virtual void Proceed() = 0;
  void End(const tensorflow::Status& status);
  // Another thread was faster: waits again.
  void Again() { pipeline_->waiter().Add(shared_from_this()); }

  Pipeline& pipeline() { return *pipeline_; }
  StepEnd& step() { return *step_; }
  tensorflow::OpKernelContext* ctx() { return ctx_; }

 private:
  void DropStep();

  std::shared_ptr<Pipeline> pipeline_;
  StepEnd* step_;
  tensorflow::OpKernelContext* const ctx_;
  Ended ended_;
  CoreStatus at_once_;  // of a wait that was over at once
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ASYNC_WAIT_H_
