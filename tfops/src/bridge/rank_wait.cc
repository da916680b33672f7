#include "bridge/rank_wait.h"

#include <utility>

#include "bridge/plan_wait.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace ascpipe {

using tensorflow::AsyncOpKernel;
using tensorflow::CancellationManager;
using tensorflow::OpKernelContext;
using tensorflow::Status;

RankWait::RankWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx,
                   AsyncOpKernel::DoneCallback done, PeerRequest request, Follow follow, Refill refill)
    : pipeline_(std::move(pipeline)),
      step_(step),
      ctx_(ctx),
      done_(std::move(done)),
      request_(std::move(request)),
      follow_(std::move(follow)),
      refill_(std::move(refill)) {}

void RankWait::Begin(std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx,
                     AsyncOpKernel::DoneCallback done, PeerRequest request, Follow follow, Refill refill) {
  const std::shared_ptr<RankWait> self(new RankWait(std::move(pipeline), step, ctx, std::move(done), std::move(request),
                                                    std::move(follow), std::move(refill)));
  self->Send();
}

void RankWait::Send() {
  const std::shared_ptr<RankWait> self = shared_from_this();
  const std::shared_ptr<Pipeline> pipeline = pipeline_;
  taken_ = false;
  CancellationManager* const manager = ctx_->cancellation_manager();
  if (manager != nullptr) {
    token_ = manager->get_cancellation_token();
    const bool registered = manager->RegisterCallback(token_, [self] {
      if (!self->Takes()) return;
      // A direct call of End would deadlock: End deregisters this callback, and DeregisterCallback waits until the
      // callback has returned.
      self->ctx_->device()->tensorflow_cpu_worker_threads()->workers->Schedule(
          [self] { self->End(Refuse(Code::kCancelled, "the step was cancelled")); });
    });
    if (!registered) {
      token_ = CancellationManager::kInvalidToken;
      Takes();
      if (request_.header.kind != PeerKind::kGate)
        step_->Owes(request_.header);  // the request was not sent, but the other ranks wait for this request
      End(Refuse(Code::kCancelled, "the step was cancelled"));
      return;
    }
  }
  PeerRequest request = request_;
  const PeerHeader header = request.header;
  Ranks* const ranks = pipeline->ranks();
  request.done = [self, header, ranks](const PeerVerdict& verdict, const Received& rows) {
    if (self->Takes()) {
      self->ctx_->device()->tensorflow_cpu_worker_threads()->workers->Schedule(
          [self, verdict, rows] { self->HearVerdict(verdict, rows); });
    } else if (verdict.kind == VerdictKind::kGo) {
      // The step was cancelled after all ranks had begun the batch. The other ranks wait for this rank's gradients of
      // the batch.
      PeerHeader failed = header;
      failed.kind = PeerKind::kBackward;
      ranks->SayFailed(failed, "its step was cancelled");
    } else if (verdict.kind == VerdictKind::kApply || verdict.kind == VerdictKind::kTurn ||
               verdict.kind == VerdictKind::kAsked) {
      // Report the failure even if the gradients were exchanged, because the other ranks apply gradients that this rank
      // does not apply.
      ranks->SayFailed(header, "its step was cancelled");
    }
  };
  ranks->peers().Exchange(std::move(request));
}

void RankWait::HearVerdict(const PeerVerdict& verdict, const Received& rows) {
  const bool aside = verdict.kind == VerdictKind::kTurn || verdict.kind == VerdictKind::kAsked;
  const PeerKind kind = request_.header.kind;
  if (aside && (kind == PeerKind::kForward || (kind == PeerKind::kRead && step_->MayPutReadsAside()))) {
    PutAside();
  } else {
    End(follow_(ctx_, step_, verdict, rows));
  }
}

// Temporarily reverts the claims or reads of the step in favor of another stream or of a request of rank 0. Other steps
// may use the tables until the step repeats its claims or reads.
void RankWait::PutAside() {
  if (token_ != CancellationManager::kInvalidToken) ctx_->cancellation_manager()->DeregisterCallback(token_);
  token_ = CancellationManager::kInvalidToken;
  const std::shared_ptr<RankWait> self = shared_from_this();
  const bool reads = request_.header.kind == PeerKind::kRead;
  reads ? step_->PutReadsAside() : step_->PutAside();
  step_->Owes(request_.header);
  step_->Ref();
  const auto again = reads ? ReadAgain : ClaimAgain;
  again(
      pipeline_, step_, ctx_,
      [self](const Status& status) {
        const Status filled =
            status.ok() && self->refill_ != nullptr ? self->refill_(self->ctx_, self->step_, &self->request_) : status;
        if (!filled.ok()) {
          self->End(filled);
          return;
        }
        self->step_->OwesNothing();
        self->Send();
      },
      request_.header.stream);
}

bool RankWait::Takes() {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool takes = !taken_;
  taken_ = true;
  return takes;
}

void RankWait::End(const Status& status) {
  if (token_ != CancellationManager::kInvalidToken) ctx_->cancellation_manager()->DeregisterCallback(token_);
  // Release the references to the step and the pipeline before `done` is called; otherwise the StepEnd could outlive
  // the step.
  const std::shared_ptr<RankWait> self = shared_from_this();
  const AsyncOpKernel::DoneCallback done = std::move(done_);
  if (!status.ok()) ctx_->SetStatus(status);
  follow_ = nullptr;
  refill_ = nullptr;
  step_->Unref();
  pipeline_.reset();
  done();
}

Status FailedExchange(const PeerVerdict& verdict) {
  if (!verdict.failed()) {
    return Refuse(
        Code::kFailedPrecondition,
        verdict.kind == VerdictKind::kAsked ? "rank 0 changes its tables" : "another step came first on rank 0",
        ": with several ranks, steps that evaluate and train, or "
        "evaluate several iterators, do not run beside steps of other threads and changes of tables. "
        "Nothing was lost; run one after the other");
  }
  return Refuse(verdict.kind == VerdictKind::kPoison ? Code::kDataLoss : Code::kFailedPrecondition, verdict.cause);
}

}  // namespace ascpipe
