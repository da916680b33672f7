// AscForward sends rows to the ranks that requested them. AscBackward sends gradients to the ranks that own the rows.
// AscApplied reports that the gradients are applied.
#include <algorithm>
#include <memory>
#include <vector>

#include "bridge/asked_rows.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "ops/exchange_op.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

// AscForward is not stateful. The node of this op has a different name for each set of fetches. If the op were
// stateful, a session would keep one kernel for each name.
REGISTER_OP("AscForward")
    .Input("owned: int64")
    .Input("slots: n * int32")
    .Input("restore: n * int32")
    .Input("rows: n * float")
    .Output("places: n * int32")
    .Output("local: n * float")
    .Attr("n: int >= 1")
    .Attr("tables: list(int)")
    .Attr("stream: int")
    .Attr("training: bool")
    .Attr("has_backward: bool")
    .Attr("used: int")
    .Attr("facts: string")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      const int n = c->num_outputs() / 2;
      for (int i = 0; i < n; ++i) {
        tensorflow::shape_inference::ShapeHandle rows;
        TF_RETURN_IF_ERROR(c->WithRank(c->input(1 + 2 * n + i), 2, &rows));
        const auto distinct = c->UnknownDim();
        c->set_output(i, c->Vector(distinct));
        c->set_output(n + i, c->Matrix(distinct, c->Dim(rows, 1)));
      }
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
With several ranks, sends each rank the rows that it requests, for all tables of a step in one exchange.

owned: int64 scalar of AscGate.
slots: int32[union of the keys that all ranks request from this rank], from AscNextPlan.
restore: int32[number of requested keys, in rank order], indexes into slots.
rows: float[number of requested keys, dim], from AscLookup.
places: int32[distinct ids of this rank's batch]: i for row i of `local`, or -1 for a key without a row.
local: float[distinct ids of this rank's batch, dim]. Undefined for keys without a row.
n: Number of tables.
tables: Numbers of the tables.
stream: Number of the stream.
training: True for the training channel. The claims of the step become final in this exchange.
has_backward: True if AscBackward follows in this step.
used: A number that identifies the tables of the step; equal on all ranks.
facts: Properties of the step that must be equal on all ranks: the lines of FactsOf.
)doc");

REGISTER_OP("AscBackward")
    .Input("owned: int64")
    .Input("restore: n * int32")
    .Input("values: n * float")
    .Input("indices: n * int32")
    .Output("asked: n * int32")
    .Output("grads: n * float")
    .Attr("n: int >= 1")
    .Attr("tables: list(int)")
    .Attr("stream: int")
    .Attr("used: int")
    .SetShapeFn(tensorflow::shape_inference::UnknownShape)
    .Doc(R"doc(
With several ranks, sends the gradients of rows to their owners, for all tables of a step in one exchange.

owned: int64 scalar of AscGate.
restore: int32[number of keys requested from this rank, in rank order], indexes into the slots of AscNextPlan.
values: float[valid, dim] of AscLookupGrad: a sum for each of `indices`, which ascend.
indices: int32[valid], rows of `local` of AscForward.
asked: `restore`, with -1 where the requesting rank sends no gradient.
grads: float[number of keys requested from this rank, dim].
n: Number of sums; a table may have several.
tables: Number of the table of each sum.
stream: Number of the stream.
used: A number that identifies the tables of the step; equal on all ranks.
)doc");

REGISTER_OP("AscApplied").SetIsStateful().SetShapeFn(tensorflow::shape_inference::NoOutputs).Doc(R"doc(
With several ranks, reports that the gradients of AscBackward are applied.

The op runs after all readers of these gradients. If a step fails before AscApplied, perhaps only some of its gradients
were applied.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

class ForwardOp : public ExchangeOp {
 public:
  explicit ForwardOp(OpKernelConstruction* construction) : ExchangeOp(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("training", &training_));
    OP_REQUIRES_OK(construction, construction->GetAttr("has_backward", &has_backward_));
    OP_REQUIRES_OK(construction, construction->GetAttr("facts", facts_.get()));
  }

 protected:
  PeerKind Kind() const override { return training_ ? PeerKind::kForward : PeerKind::kRead; }
  VerdictKind Expected() const override { return training_ ? VerdictKind::kGo : VerdictKind::kRows; }
  bool HasBackward() const override { return has_backward_; }
  std::shared_ptr<const std::string> Facts() const override { return facts_; }

  // Gathers the rows again, because new claims or answers have overwritten the slots. The rows are written into the
  // input tensor `rows`, which no other op reads.
  Status ReadAgain(OpKernelContext* ctx, const StepEnd& step) override {
    for (int i = 0; i < n_; ++i) {
      const Tensor &slots = ctx->input(1 + i), &restore = ctx->input(1 + n_ + i), &rows = ctx->input(1 + 2 * n_ + i);
      const Table* table = nullptr;
      if (training_) {
        table = step.PendingTable(tables_[i]);
        if (table == nullptr) return Refuse(Code::kInternal, "AscForward: table ", tables_[i], " is not claimed");
      } else {
        const PendingRead* const read = step.ReadOf(tables_[i]);
        if (read == nullptr) continue;  // rows of a checkpoint do not change
        table = &read->table();
      }
      const auto copies = step.RowsOf(slots.flat<tensorflow::int32>().data());
      TF_RETURN_IF_ERROR(
          GatherAsked(ctx, *table, copies.get(), slots, restore, const_cast<float*>(rows.flat<float>().data())));
    }
    return OkStatus();
  }

  Status Send(OpKernelContext* ctx, int i, const RowShares& shares, Outgoing* outgoing,
              std::vector<std::vector<Piece>>* to) override {
    const Tensor &slots = ctx->input(1 + i), &restore = ctx->input(1 + n_ + i), &rows = ctx->input(1 + 2 * n_ + i);
    const std::int64_t asked = shares.askers.back();
    if (restore.NumElements() != asked || rows.dims() != 2 || rows.dim_size(0) != asked) {
      return Refuse(kE301, "AscForward: ", rows.shape().DebugString(), " rows for ", asked, " keys");
    }
    const auto numbers = slots.flat<tensorflow::int32>();
    const std::int32_t* const end = numbers.data() + numbers.size();
    const std::uint8_t* present = nullptr;
    if (std::find(numbers.data(), end, layout::kSlotNone) != end) {
      const auto index = restore.flat<tensorflow::int32>();
      outgoing->masks.emplace_back(static_cast<std::size_t>(asked));
      for (std::int64_t row = 0; row < asked; ++row) {
        outgoing->masks.back()[static_cast<std::size_t>(row)] = numbers(index(row)) != layout::kSlotNone ? 1 : 0;
      }
      present = outgoing->masks.back().data();
    }
    outgoing->tensors.push_back(rows);
    outgoing->sections.Add({rows.flat<float>().data(), present, rows.dim_size(1), &shares.askers}, to);
    return OkStatus();
  }

  void Agreed(StepEnd* step, Pipeline* pipeline, const PeerHeader& header) override {
    if (!training_) return step->HasRead();
    step->Commit();
    pipeline->stream(stream_)->gate().RingTableWorkers();
    if (!has_backward_) return;
    PeerHeader owed = header;
    owed.kind = PeerKind::kBackward;
    step->Owes(owed);
  }

  Status Allocate(OpKernelContext* ctx, int i, const RowShares& shares, Incoming* incoming) override {
    const std::int64_t distinct = shares.owners.back(), dim = ctx->input(1 + 2 * n_ + i).dim_size(1);
    Tensor *places, *local;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, TensorShape({distinct}), &places));
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, TensorShape({distinct, dim}), &local));
    auto numbers = places->flat<tensorflow::int32>();
    for (std::int64_t row = 0; row < distinct; ++row) numbers(row) = static_cast<tensorflow::int32>(row);
    *incoming = {&shares.owners, dim, local->flat<float>().data(), numbers.data()};
    return OkStatus();
  }

 private:
  bool training_;
  bool has_backward_;
  const std::shared_ptr<std::string> facts_ = std::make_shared<std::string>();
};

class BackwardOp : public ExchangeOp {
 public:
  using ExchangeOp::ExchangeOp;

 protected:
  PeerKind Kind() const override { return PeerKind::kBackward; }
  VerdictKind Expected() const override { return VerdictKind::kApply; }

  Status Send(OpKernelContext* ctx, int i, const RowShares& shares, Outgoing* outgoing,
              std::vector<std::vector<Piece>>* to) override {
    const Tensor &values = ctx->input(1 + n_ + i), &indices = ctx->input(1 + 2 * n_ + i);
    const std::int64_t distinct = shares.owners.back(), valid = indices.NumElements();
    if (values.dims() != 2 || values.dim_size(0) != valid) {
      return Refuse(Code::kInvalidArgument, "AscBackward: gradients of shape ", values.shape().DebugString(), " for ",
                    valid, " rows");
    }
    const std::int64_t dim = values.dim_size(1);
    outgoing->tensors.push_back(values);
    const float* rows = values.flat<float>().data();
    const std::uint8_t* present = nullptr;
    if (valid != distinct) {
      outgoing->filled.emplace_back(static_cast<std::size_t>(distinct * dim));
      outgoing->masks.emplace_back(static_cast<std::size_t>(distinct));
      const auto numbers = indices.flat<tensorflow::int32>();
      for (std::int64_t row = 0; row < valid; ++row) {
        if (numbers(row) < 0 || numbers(row) >= distinct) {
          return Refuse(Code::kInvalidArgument, "AscBackward: a gradient of row ", numbers(row), " of ", distinct);
        }
        outgoing->masks.back()[static_cast<std::size_t>(numbers(row))] = 1;
        std::copy(rows + row * dim, rows + (row + 1) * dim, outgoing->filled.back().data() + numbers(row) * dim);
      }
      rows = outgoing->filled.back().data();
      present = outgoing->masks.back().data();
    }
    outgoing->sections.Add({rows, present, dim, &shares.owners}, to);
    return OkStatus();
  }

  void Agreed(StepEnd* step, Pipeline*, const PeerHeader& header) override { step->Owes(header); }

  Status Allocate(OpKernelContext* ctx, int i, const RowShares& shares, Incoming* incoming) override {
    const Tensor& restore = ctx->input(1 + i);
    const std::int64_t asked = shares.askers.back(), dim = ctx->input(1 + n_ + i).dim_size(1);
    Tensor *marks, *grads;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, restore.shape(), &marks));
    TF_RETURN_IF_ERROR(ctx->allocate_output(n_ + i, TensorShape({asked, dim}), &grads));
    const auto index = restore.flat<tensorflow::int32>();
    std::copy(index.data(), index.data() + asked, marks->flat<tensorflow::int32>().data());
    *incoming = {&shares.askers, dim, grads->flat<float>().data(), marks->flat<tensorflow::int32>().data()};
    return OkStatus();
  }
};

class AppliedOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;
    OP_REQUIRES_OK(ctx, ToStatus(CurrentPipeline(&pipeline)));
    StepEnd* step;
    OP_REQUIRES_OK(ctx, StepEnd::Of(ctx, pipeline, &step));
    step->OwesNothing();
    step->Unref();
  }
};

}  // namespace

REGISTER_KERNEL_BUILDER(Name("AscForward").Device(tensorflow::DEVICE_CPU), ForwardOp);
REGISTER_KERNEL_BUILDER(Name("AscBackward").Device(tensorflow::DEVICE_CPU), BackwardOp);
REGISTER_KERNEL_BUILDER(Name("AscApplied").Device(tensorflow::DEVICE_CPU), AppliedOp);

}  // namespace ascpipe
