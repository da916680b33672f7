#include "bridge/rank_wait.h"

#include <utility>

#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace ascpipe {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::OpKernelContext;
using tensorflow::Status;

RankWait::RankWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx,
                   AsyncOpKernel::DoneCallback done, Follow follow)
    : pipeline_(std::move(pipeline)), step_(step), ctx_(ctx), done_(std::move(done)), follow_(std::move(follow)) {}

void RankWait::Begin(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx,
                     AsyncOpKernel::DoneCallback done, PeerRequest request, Follow follow) {
  const std::shared_ptr<RankWait> self(
      new RankWait(std::move(pipeline), step, ctx, std::move(done), std::move(follow)));
  const std::shared_ptr<Pipeline> used = self->pipeline_;
  CancellationManager* const manager = ctx->cancellation_manager();
  if (manager != nullptr) {
    self->token_ = manager->get_cancellation_token();
    const bool registered = manager->RegisterCallback(self->token_, [self] {
      if (!self->Takes()) return;
      // Not here: the thread that ends the op may wait for this callback to return.
      self->ctx_->device()->tensorflow_cpu_worker_threads()->workers->Schedule(
          [self] { self->End(Refuse(Code::kCancelled, "the step was cancelled")); });
    });
    if (!registered) {
      self->token_ = CancellationManager::kInvalidToken;
      self->Takes();
      self->End(Refuse(Code::kCancelled, "the step was cancelled"));
      return;
    }
  }
  const PeerHeader header = request.header;
  Ranks* const ranks = used->ranks();
  request.done = [self, header, ranks](const PeerVerdict& verdict, const Received& rows) {
    if (self->Takes()) {
      self->ctx_->device()->tensorflow_cpu_worker_threads()->workers->Schedule([self, verdict, rows] {
        const Status status = self->follow_(self->ctx_, self->step_, verdict, rows);
        self->End(status);
      });
    } else if (verdict.kind == VerdictKind::kGo) {
      // The step was cancelled although all ranks have begun the batch: they wait for its gradients.
      PeerHeader failed = header;
      failed.kind = PeerKind::kBackward;
      ranks->SayFailed(failed, "its step was cancelled");
    }
  };
  ranks->peers().Exchange(std::move(request));
}

bool RankWait::Takes() {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool takes = !taken_;
  taken_ = true;
  return takes;
}

void RankWait::End(const Status& status) {
  if (token_ != CancellationManager::kInvalidToken) ctx_->cancellation_manager()->DeregisterCallback(token_);
  // Releases everything of this op before the step may end: the container has to end the step.
  const std::shared_ptr<RankWait> self = shared_from_this();
  const AsyncOpKernel::DoneCallback done = std::move(done_);
  if (!status.ok()) ctx_->SetStatus(status);
  follow_ = nullptr;
  step_->Unref();
  pipeline_.reset();
  done();
}

Status FailedExchange(const PeerVerdict& verdict) {
  return Refuse(verdict.kind == VerdictKind::kPoison ? Code::kDataLoss : Code::kFailedPrecondition, verdict.cause);
}

}  // namespace ascpipe
