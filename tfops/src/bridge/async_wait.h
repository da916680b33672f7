// Wait of an asynchronous op. The wait ends exactly once, and cancelling the step ends the wait.
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

// Callback that is called at the end of a wait.
using Ended = std::function<void(const tensorflow::Status&)>;

// Returns a callback that sets the status of an op and calls `done`. Use the callback only in ops with a single wait.
Ended EndsOp(tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done);

// Subclasses implement Poll and Proceed. Poll decides when the wait is over. After the wait, Proceed runs on a
// TensorFlow thread.
class AsyncWait : public Wait, public std::enable_shared_from_this<AsyncWait> {
 public:
  // Takes ownership of one reference to `step`.
  AsyncWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx, Ended ended);
  ~AsyncWait() override { DropStep(); }

  // Calls Proceed immediately if the wait is already over. Otherwise starts to wait.
  void Begin() { IsOver() ? GoOn() : WaitForIt(); }
  // IsOver, GoOn and WaitForIt are the parts of Begin. Call GoOn if IsOver returns true, otherwise call WaitForIt.
  bool IsOver();
  void GoOn();
  void WaitForIt();  // ends immediately if the step is already cancelled

  void Finish(const CoreStatus& status) final;

 protected:
  // Proceed is called after Poll has returned true. Proceed must call End or Again exactly once.
  virtual void Proceed() = 0;
  void End(const tensorflow::Status& status);
  // Starts the wait again. Proceed calls Again if another thread has changed the awaited state since Poll returned
  // true.
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
  CoreStatus at_once_;  // status of a wait that ended immediately
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ASYNC_WAIT_H_
