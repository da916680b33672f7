// AscSubmit passes the ids of one batch to the pipeline. AscCycleEnd returns whether a batch is the last batch of a
// gradient accumulation cycle.
#include <atomic>

#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "bridge/ticket_allocator.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

REGISTER_OP("AscSubmit")
    .Input("ids: Tids")
    .Input("timestamp: n_stamps * int64")
    .Input("position: n_positions * int64")
    .Output("ticket: int64")
    .Attr("Tids: list({int32, int64}) >= 1")
    .Attr("n_stamps: int >= 0 = 0")
    .Attr("n_positions: int >= 0 = 0")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Passes the ids of one batch to the pipeline and returns the ticket of the batch.

The op never waits: it keeps references to the ids until the ring has space for them. When the last reference to the
ticket tensor is released, the batch can no longer be trained, and its frame is freed.

ids: One int32 or int64 tensor of at most 6 dimensions per feature, in the order in which the stream declares them.
timestamp: None, or one int64 scalar greater than 0: the time of the batch.
position: None, or the result of AscReadPosition: the position of the dataset after the batch.
ticket: int64 scalar. It travels with the batch to the plan ops of the same step.
n_stamps: 0 or 1.
n_positions: 0 or 1.
stream: Number of the stream, as declared when the pipeline was started.
)doc");

REGISTER_OP("AscCycleEnd")
    .Input("ticket: int64")
    .Input("batches: int64")
    .Output("is_end: bool")
    .Attr("table: int")
    .Attr("steps: int")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
Returns true if the accumulated gradients are applied after this batch.

The plan of such a batch contains the rows of all batches of the cycle.

ticket: int64 scalar of AscSubmit, fetched in the same step; its plan must be claimed.
batches: int64 scalar, the number of batches whose gradients were accumulated since the last application.
is_end: bool scalar.
table: Number of a table that is trained.
steps: Number of batches of a cycle.
)doc");

namespace ascpipe {

namespace {

constexpr tensorflow::int64 kMostCycles = 2;  // a program may omit the last batch of a cycle once

// A batch that holds references to the id tensors instead of copies of the ids.
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
    OP_REQUIRES_OK(construction, construction->GetAttr("n_positions", &positions_));
    OP_REQUIRES(construction, stamps_ <= 1 && positions_ <= 1,
                Refuse(Code::kInvalidArgument, "AscSubmit: ", stamps_, " timestamps and ", positions_,
                       " positions, a batch has one or none"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    CoreStatus status = CurrentPipeline(&pipeline);
    if (!status.ok()) return Fail(ctx, status);
    Stream* stream = pipeline->stream(stream_);
    OP_REQUIRES(ctx, stream != nullptr,
                Refuse(Code::kFailedPrecondition, "AscSubmit: stream ", stream_,
                       " is not of this pipeline; its graph "
                       "was built before the pipeline was started, or for another one"));
    const int ids_inputs = ctx->num_inputs() - stamps_ - positions_;
    const std::size_t inputs = static_cast<std::size_t>(ids_inputs);
    const FeatureList& declared = pipeline->features(stream_);
    OP_REQUIRES(ctx, inputs == declared.tables.size(),
                Refuse(Code::kInvalidArgument, "AscSubmit: ", inputs, " features, but stream ", stream_, " has ",
                       declared.tables.size()));
    std::unique_ptr<TensorBatch> batch(new TensorBatch);
    batch->source = source_;
    if (stamps_ == 1) OP_REQUIRES_OK(ctx, ReadTimestamp(ctx->input(ids_inputs), &batch->timestamp));
    if (positions_ == 1) OP_REQUIRES_OK(ctx, ReadPositionOf(ctx->input(ctx->num_inputs() - 1), &batch->read));
    for (int i = 0; i < ids_inputs; ++i) {
      const tensorflow::Tensor& ids = ctx->input(i);
      OP_REQUIRES(
          ctx, ids.dims() <= layout::kMaxSpecRank,
          Refuse(Code::kInvalidArgument, "AscSubmit: feature '", declared.names[i], "' has ", ids.dims(),
                 " dimensions (", ids.shape().DebugString(), "), at most ", layout::kMaxSpecRank, " are possible"));
      batch->Add(ids, declared.tables[i]);
    }
    Ticket* ticket;
    RankedStream* const ranked = pipeline->ranked(stream_);
    status = ranked == nullptr ? stream->Submit(std::move(batch), &ticket)
                               : ranked->Submit(Run(ranked), std::move(batch), &ticket);
    if (!status.ok()) return Fail(ctx, status);
    ctx->set_output(0, TicketAllocator::Get()->MakeTensor(ticket));
  }

 private:
  // Fails the batch without a line in the log. The step that reads the batch raises the error. After a shutdown, no
  // step reads the batches that the dataset still prefetches.
  static void Fail(tensorflow::OpKernelContext* ctx, const CoreStatus& status) { ctx->SetStatus(ToStatus(status)); }

  // Returns the number of a new source. A kernel lives as long as its iterator, so the number of the kernel identifies
  // the iterator.
  static std::int64_t NewSource() {
    static std::atomic<std::int64_t> sources{0};
    return ++sources;
  }

  std::int64_t Run(RankedStream* ranked) {
    std::int64_t run = run_.load();
    if (run == 0) run_.store(run = ranked->NewRun());
    return run;
  }

  static tensorflow::Status ReadPositionOf(const tensorflow::Tensor& position, ReadPosition* read) {
    if (position.dims() != 1 || position.NumElements() != 4) {
      return Refuse(Code::kInvalidArgument, "AscSubmit: the position has shape ", position.shape().DebugString(),
                    ", expected [4]");
    }
    const auto values = position.vec<tensorflow::int64>();
    read->source = values(0);
    read->pass = values(1);
    read->epoch = values(2);
    read->consumed = values(3);
    return OkStatus();
  }

  tensorflow::Status ReadTimestamp(const tensorflow::Tensor& stamp, std::int64_t* timestamp) const {
    if (stamp.dims() != 0) {
      return Refuse(Code::kInvalidArgument, "AscSubmit: the timestamp of stream ", stream_, " has shape ",
                    stamp.shape().DebugString(), ", expected a scalar: one time for the whole batch");
    }
    *timestamp = stamp.scalar<tensorflow::int64>()();
    if (*timestamp > 0) return OkStatus();
    return Refuse(Code::kInvalidArgument, "AscSubmit: the timestamp of stream ", stream_, " is ", *timestamp,
                  ", but it must be greater than 0 (seconds since 1970, say). The batch was not taken and nothing "
                  "else is lost; correct the timestamps of the data");
  }

  int stream_;
  int stamps_;
  int positions_;
  const std::int64_t source_ = NewSource();
  std::atomic<std::int64_t> run_{0};  // several ranks: number of the iterator in its stream
};

class CycleEndOp : public tensorflow::OpKernel {
 public:
  explicit CycleEndOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("steps", &steps_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    const tensorflow::Tensor& ticket = ctx->input(0);
    int index = -1;
    Stream* const stream = pipeline->TrainingStream(table_, &index);
    const tensorflow::Tensor& batches = ctx->input(1);
    OP_REQUIRES(ctx, stream != nullptr && ticket.dims() == 0 && batches.dims() == 0,
                Refuse(Code::kFailedPrecondition, "AscCycleEnd: table ", table_,
                       " is not trained by this pipeline, or "
                       "the ticket has shape ",
                       ticket.shape().DebugString(), ", expected a scalar"));
    TicketHold hold;
    OP_REQUIRES_OK(ctx, ToStatus(stream->Hold(ticket.scalar<tensorflow::int64>()(), &hold)));
    OP_REQUIRES(ctx, hold->state() >= 0,
                Refuse(Code::kFailedPrecondition, "AscCycleEnd: the plan of ticket ", SequenceOf(hold->number()),
                       " was not claimed"));
    const CyclePlace& cycle = hold->record().cycle;
    OP_REQUIRES(
        ctx, cycle.StepsOf(index) == steps_,
        Refuse(Code::kFailedPrecondition, "AscCycleEnd: gradients of table ", table_, " are accumulated over ", steps_,
               " batches in this graph, and over ", cycle.StepsOf(index),
               " in the graph that was "
               "started last. The gradient of this batch was added to the sums, and no sum was applied. End the "
               "sessions of a graph before the next one is started, or give both graphs the same k"));
    const tensorflow::int64 added = batches.scalar<tensorflow::int64>()();
    OP_REQUIRES(ctx, added <= kMostCycles * steps_,
                Refuse(Code::kFailedPrecondition, "AscCycleEnd: gradients of ", added, " batches of table '",
                       pipeline->table(table_)->name(),
                       "' were added, and their sum was not applied: the training op did "
                       "not run with the last batch of its cycles of ",
                       steps_,
                       " batches. All batches of the dataset "
                       "count, also batches that another op trains or that are only looked up. The sums are kept, and "
                       "rows are as after the last cycle. Run the training op with each batch"));
    OP_REQUIRES(ctx, !stream->IsOfBefore(hold->number(), steps_),
                Refuse(Code::kFailedPrecondition,
                       "AscCycleEnd: the batch was read ahead before a checkpoint was "
                       "restored or variables were initialized, and its cycle of ",
                       steps_,
                       " gradients would end at "
                       "another batch now. Its gradient was added to the sums, and no sum was applied. Restore or "
                       "initialize variables again, and initialize the iterator after that, so that batches are read "
                       "again"));
    tensorflow::Tensor* out;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &out));
    out->scalar<bool>()() = cycle.Ends(index);
  }

 private:
  int table_;
  tensorflow::int64 steps_;
};

REGISTER_KERNEL_BUILDER(Name("AscSubmit").Device(tensorflow::DEVICE_CPU), SubmitOp);
REGISTER_KERNEL_BUILDER(Name("AscCycleEnd").Device(tensorflow::DEVICE_CPU), CycleEndOp);

}  // namespace ascpipe
