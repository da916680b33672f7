// AscSubmit: hands the ids of one batch to the pipeline.
#include <atomic>

#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "bridge/ticket_allocator.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscSubmit")
    .Input("ids: Tids")
    .Input("timestamp: n_stamps * int64")
    .Output("ticket: int64")
    .Attr("Tids: list({int32, int64}) >= 1")
    .Attr("n_stamps: int >= 0 = 0")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Hands the ids of one batch to the pipeline and returns the ticket of the batch.

Never waits: the ids are kept by reference until there is room for them in the ring.  When the last
reference to the ticket tensor is gone, the batch can no longer be trained and its frame is given back.

ids: one int32 or int64 tensor of at most 6 dimensions per feature, in the order in which the stream was declared.
timestamp: none, or one int64 scalar greater than 0: the time of the batch.
ticket: int64 scalar; travels with the batch to the plan ops of the same step.
n_stamps: 0 or 1.
stream: number of the stream, as declared when the pipeline was started.
)doc");

namespace ascpipe {

namespace {

// Keeps the id tensors, not copies of them.
class TensorBatch : public Batch {
 public:
  void Add(const tensorflow::Tensor& ids, int table) {
    tensors_.push_back(ids);
    FeatureIds feature;
    feature.data = ids.tensor_data().data();
    feature.is_int32 = ids.dtype() == tensorflow::DT_INT32;
    feature.count = ids.NumElements();
    feature.table = table;
    for (int axis = 0; axis < ids.dims(); ++axis) feature.shape.push_back(ids.dim_size(axis));
    features.push_back(std::move(feature));
  }

 private:
  std::vector<tensorflow::Tensor> tensors_;
};

}  // namespace

class SubmitOp : public tensorflow::OpKernel {
 public:
  explicit SubmitOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("stream", &stream_));
    OP_REQUIRES_OK(construction, construction->GetAttr("n_stamps", &stamps_));
    OP_REQUIRES(construction, stamps_ <= 1,
                Refuse(Code::kInvalidArgument, "AscSubmit: ", stamps_, " timestamps, a batch has one or none"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    Stream* stream = pipeline->stream(stream_);
    OP_REQUIRES(ctx, stream != nullptr,
                Refuse(Code::kFailedPrecondition, "AscSubmit: stream ", stream_,
                       " is not of this pipeline; its graph "
                       "was built before the pipeline was started, or for another one"));
    const std::size_t inputs = static_cast<std::size_t>(ctx->num_inputs() - stamps_);
    const FeatureList& declared = pipeline->features(stream_);
    OP_REQUIRES(ctx, inputs == declared.tables.size(),
                Refuse(Code::kInvalidArgument, "AscSubmit: ", inputs, " features, but stream ", stream_, " has ",
                       declared.tables.size()));
    std::unique_ptr<TensorBatch> batch(new TensorBatch);
    batch->source = source_;
    if (stamps_ == 1) OP_REQUIRES_OK(ctx, ReadTimestamp(ctx->input(ctx->num_inputs() - 1), &batch->timestamp));
    for (int i = 0; i < ctx->num_inputs() - stamps_; ++i) {
      const tensorflow::Tensor& ids = ctx->input(i);
      OP_REQUIRES(
          ctx, ids.dims() <= layout::kMaxSpecRank,
          Refuse(Code::kInvalidArgument, "AscSubmit: feature '", declared.names[i], "' has ", ids.dims(),
                 " dimensions (", ids.shape().DebugString(), "), at most ", layout::kMaxSpecRank, " are possible"));
      batch->Add(ids, declared.tables[i]);
    }
    Ticket* ticket;
    RankedStream* const ranked = pipeline->ranked(stream_);
    OP_REQUIRES_OK(ctx, ToStatus(ranked == nullptr ? stream->Submit(std::move(batch), &ticket)
                                                   : ranked->Submit(Run(ranked), std::move(batch), &ticket)));
    ctx->set_output(0, TicketAllocator::Get()->MakeTensor(ticket));
  }

 private:
  // The kernel lives as long as its iterator.
  static std::int64_t NewSource() {
    static std::atomic<std::int64_t> sources{0};
    return ++sources;
  }

  std::int64_t Run(RankedStream* ranked) {
    std::int64_t run = run_.load();
    if (run == 0) run_.store(run = ranked->NewRun());
    return run;
  }

  tensorflow::Status ReadTimestamp(const tensorflow::Tensor& stamp, std::int64_t* timestamp) const {
    if (stamp.dims() != 0) {
      return Refuse(Code::kInvalidArgument, "AscSubmit: the timestamp of stream ", stream_, " has shape ",
                    stamp.shape().DebugString(), ", expected a scalar: one time for the whole batch");
    }
    *timestamp = stamp.scalar<tensorflow::int64>()();
    if (*timestamp > 0) return tensorflow::Status::OK();
    return Refuse(Code::kInvalidArgument, "AscSubmit: the timestamp of stream ", stream_, " is ", *timestamp,
                  ", but it must be greater than 0 (seconds since 1970, say). The batch was not taken and nothing "
                  "else is lost; correct the timestamps of the data");
  }

  int stream_;
  int stamps_;
  const std::int64_t source_ = NewSource();
  std::atomic<std::int64_t> run_{0};  // of several ranks: which iterator of the stream
};

REGISTER_KERNEL_BUILDER(Name("AscSubmit").Device(tensorflow::DEVICE_CPU), SubmitOp);

}  // namespace ascpipe
