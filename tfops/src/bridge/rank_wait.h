// Wait of an op for an exchange with the other ranks. The wait ends when the verdict of the exchange arrives or the
// step is cancelled.
#ifndef ASCPIPE_BRIDGE_RANK_WAIT_H_
#define ASCPIPE_BRIDGE_RANK_WAIT_H_

#include <functional>
#include <memory>
#include <mutex>

#include "bridge/async_wait.h"
#include "bridge/pipeline.h"
#include "bridge/step_end.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

class RankWait : public std::enable_shared_from_this<RankWait> {
 public:
  // Function that is called once on a TensorFlow thread with the verdict of all ranks. The op ends with the status that
  // Follow returns.
  using Follow = std::function<tensorflow::Status(tensorflow::OpKernelContext* ctx, StepEnd* step,
                                                  const PeerVerdict& verdict, const Received& rows)>;

  // Function that is called on a TensorFlow thread after the step has repeated its claims or reads. Refill updates the
  // request, because other steps or cuts may have changed the data.
  using Refill =
      std::function<tensorflow::Status(tensorflow::OpKernelContext* ctx, StepEnd* step, PeerRequest* request)>;

  // Starts the wait. Takes ownership of one reference to `step`.
  static void Begin(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx,
                    tensorflow::AsyncOpKernel::DoneCallback done, PeerRequest request, Follow follow,
                    Refill refill = nullptr);

 private:
  RankWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, tensorflow::OpKernelContext* ctx,
           tensorflow::AsyncOpKernel::DoneCallback done, PeerRequest request, Follow follow, Refill refill);

  void Send();
  bool Takes();  // returns true only for the first caller, which is the verdict or the cancellation
  void HearVerdict(const PeerVerdict& verdict, const Received& rows);
  void PutAside();
  void End(const tensorflow::Status& status);

  std::shared_ptr<Pipeline> pipeline_;
  StepEnd* step_;
  tensorflow::OpKernelContext* const ctx_;
  tensorflow::AsyncOpKernel::DoneCallback done_;
  PeerRequest request_;
  Follow follow_;
  Refill refill_;
  tensorflow::CancellationToken token_ = tensorflow::CancellationManager::kInvalidToken;
  std::mutex mutex_;
  bool taken_ = false;
};

// Returns the error of a step whose exchange has failed.
tensorflow::Status FailedExchange(const PeerVerdict& verdict);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RANK_WAIT_H_
