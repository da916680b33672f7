// AscBackward: sends gradients back to the ranks that own their rows.  AscApplied: the gradients are applied.
#include <algorithm>
#include <memory>
#include <vector>

#include "bridge/status.h"
#include "ops/exchange_op.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

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
Of several ranks: sends gradients of rows to their owners, of all tables of a step in one exchange.

owned: int64 scalar of AscGate.
restore: int32[all that ranks ask of this one, in rank order], index into the slots of AscNextPlan.
values: float[valid, dim], of AscLookupGrad: a sum for each of `indices`, which rise.
indices: int32[valid], rows of `local` of AscForward.
asked: restore, but -1 where the rank that asked sends no gradient.
grads: float[all that ranks ask of this one, dim].
n: number of sums; a table may have several.
tables: the number of the table of each.
stream: number of the stream.
used: a number for the tables that the step uses, equal on all ranks.
)doc");

REGISTER_OP("AscApplied").SetIsStateful().SetShapeFn(tensorflow::shape_inference::NoOutputs).Doc(R"doc(
Of several ranks: comes after all that reads the gradients of AscBackward; a step that fails before is half a step.
)doc");

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

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
    return Status::OK();
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
    return Status::OK();
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

REGISTER_KERNEL_BUILDER(Name("AscBackward").Device(tensorflow::DEVICE_CPU), BackwardOp);
REGISTER_KERNEL_BUILDER(Name("AscApplied").Device(tensorflow::DEVICE_CPU), AppliedOp);

}  // namespace ascpipe
