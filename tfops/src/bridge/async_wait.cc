#include "bridge/async_wait.h"

#include <utility>

#include "bridge/status.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace ascpipe {

using tensorflow::CancellationManager;
using tensorflow::OpKernelContext;
using tensorflow::Status;

Ended EndsOp(OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done) {
  return [ctx, done](const Status& status) {
    if (!status.ok()) ctx->SetStatus(status);
    done();
  };
}

AsyncWait::AsyncWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended)
    : pipeline_(std::move(pipeline)), step_(step), ctx_(ctx), ended_(std::move(ended)) {}

bool AsyncWait::IsOver() {
  CancellationManager* const manager = ctx_->cancellation_manager();
  return (manager == nullptr || !manager->IsCancelled()) && pipeline_->waiter().TryAtOnce(this, &at_once_);
}

void AsyncWait::GoOn() {
  if (at_once_.ok()) {
    Proceed();
  } else {
    End(ToStatus(at_once_));
  }
}

void AsyncWait::WaitForIt() {
  CancellationManager* manager = ctx_->cancellation_manager();
  if (manager != nullptr) {
    const std::shared_ptr<AsyncWait> self = shared_from_this();
    const std::shared_ptr<Pipeline> pipeline = pipeline_;
    token_ = manager->get_cancellation_token();
    const bool registered = manager->RegisterCallback(token_, [self, pipeline] {
      self->Cancel();  // no other action, because the thread that ends the wait may be waiting for this callback
      pipeline->waiter().Wake();
    });
    if (!registered) {
      token_ = CancellationManager::kInvalidToken;
      End(Refuse(Code::kCancelled, "the step was cancelled"));
      return;
    }
  }
  pipeline_->waiter().Add(shared_from_this());
}

void AsyncWait::Finish(const CoreStatus& status) {
  if (!status.ok()) {
    End(ToStatus(status));
    return;
  }
  const std::shared_ptr<AsyncWait> self = shared_from_this();
  ctx_->device()->tensorflow_cpu_worker_threads()->workers->Schedule([self] { self->Proceed(); });
}

void AsyncWait::End(const Status& status) {
  if (token_ != CancellationManager::kInvalidToken) ctx_->cancellation_manager()->DeregisterCallback(token_);
  // Release the references to the step and the pipeline before `ended` is called; otherwise the StepEnd could outlive
  // the step.
  const std::shared_ptr<AsyncWait> self = shared_from_this();
  const Ended ended = std::move(ended_);
  DropStep();
  pipeline_.reset();
  ended(status);
}

void AsyncWait::DropStep() {
  if (step_ != nullptr) step_->Unref();
  step_ = nullptr;
}

}  // namespace ascpipe
