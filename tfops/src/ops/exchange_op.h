// Base class of AscForward and AscBackward. In one exchange, each op sends rows of all tables of a step to all ranks,
// and receives rows from all ranks.
#ifndef ASCPIPE_OPS_EXCHANGE_OP_H_
#define ASCPIPE_OPS_EXCHANGE_OP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bridge/compatibility.h"
#include "bridge/pipeline.h"
#include "bridge/row_sections.h"
#include "bridge/step_end.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Data to send, and objects that must live until the data is sent.
struct Outgoing {
  std::vector<tensorflow::Tensor> tensors;
  std::deque<std::vector<float>> filled;
  std::deque<std::vector<std::uint8_t>> masks;
  RowSections sections;
  std::shared_ptr<const RankedBatch> batch;
};

// Memory into which the received rows of one input are copied.
struct Incoming {
  const std::vector<std::int64_t>* bounds;  // [ranks + 1]: boundaries of the rows of each rank
  std::int64_t dim;
  float* rows;
  std::int32_t* marks;  // the element of a missing row is set to -1
};

class ExchangeOp : public tensorflow::AsyncOpKernel {
 public:
  explicit ExchangeOp(tensorflow::OpKernelConstruction* construction);

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override;

 protected:
  virtual PeerKind Kind() const = 0;
  virtual VerdictKind Expected() const = 0;
  virtual bool HasBackward() const { return false; }
  virtual std::shared_ptr<const std::string> Facts() const { return nullptr; }
  // ReadAgain is called if the step had to claim or read its tables a second time. ReadAgain updates the inputs that
  // have changed.
  virtual tensorflow::Status ReadAgain(tensorflow::OpKernelContext*, const StepEnd&) { return OkStatus(); }
  // Appends the rows of input i to the data to send.
  virtual tensorflow::Status Send(tensorflow::OpKernelContext* ctx, int i, const RowShares& shares, Outgoing* outgoing,
                                  std::vector<std::vector<Piece>>* to) = 0;
  // Agreed is called when all ranks have sent the same kind of message for the same batch. The op reads the received
  // rows after Agreed returns.
  virtual void Agreed(StepEnd* step, Pipeline* pipeline, const PeerHeader& header) = 0;
  // Allocates the outputs that belong to input i.
  virtual tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, int i, const RowShares& shares,
                                      Incoming* incoming) = 0;

  int n_;
  std::vector<tensorflow::int32> tables_;
  int stream_;

 private:
  tensorflow::Status Fill(tensorflow::OpKernelContext* ctx, const Pipeline& pipeline,
                          const std::shared_ptr<const RankedBatch>& batch, const std::vector<int>& columns,
                          PeerRequest* request);
  tensorflow::Status ReceiveAll(tensorflow::OpKernelContext* ctx, const RankedBatch& batch,
                                const std::vector<int>& columns, const Received& received);

  tensorflow::int64 used_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_OPS_EXCHANGE_OP_H_
