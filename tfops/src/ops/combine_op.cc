// AscCombine, and the ops that compute its gradients with respect to the rows and to the weights.
#include <algorithm>
#include <string>

#include "bridge/bag_inputs.h"
#include "bridge/compatibility.h"
#include "bridge/lookup_source.h"
#include "bridge/parallel.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

tensorflow::Status ShapeOfBags(InferenceContext* c) {
  ShapeHandle rows, splits;
  tensorflow::shape_inference::DimensionHandle bags;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &splits));
  TF_RETURN_IF_ERROR(c->Subtract(c->Dim(splits, 0), 1, &bags));
  c->set_output(0, c->Matrix(bags, c->Dim(rows, 1)));
  return ascpipe::OkStatus();
}

tensorflow::Status ShapeOfWeights(InferenceContext* c) {
  int f;
  TF_RETURN_IF_ERROR(c->GetAttr("f", &f));
  c->set_output(0, c->input(2 + 3 * f));
  return ascpipe::OkStatus();
}

tensorflow::Status ShapeOfRows(InferenceContext* c) {
  ShapeHandle grad;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &grad));
  c->set_output(0, c->Matrix(c->UnknownDim(), c->Dim(grad, 1)));
  return ascpipe::OkStatus();
}

}  // namespace

REGISTER_OP("AscCombine")
    .Input("rows: float")
    .Input("splits: int64")
    .Input("weights: w * float")
    .Output("combined: float")
    .Attr("w: int >= 0")
    .Attr("combiner: string")
    .Attr("max_norm: float = 0")
    .SetShapeFn(ShapeOfBags)
    .Doc(R"doc(
Combines the rows of each bag into one row.

Sums are computed in the order of embedding_lookup_sparse. The combined row of an empty bag contains zeros. If the rows
are the output of a lookup, AscRead replaces both ops in the graph of a step.

rows: float[n, dim], a row per position.
splits: int64[bags + 1], from AscBagSplits.
weights: float[n]. Without this input, each weight is 1.
combined: float[bags, dim].
w: 1 with weights, otherwise 0.
combiner: sum, mean or sqrtn.
max_norm: Rows are clipped to this norm before they are combined; 0 for no clipping.
)doc");

REGISTER_OP("AscCombineWeightsGrad")
    .Input("rows: float")
    .Input("slots: f * int32")
    .Input("restore: f * int32")
    .Input("default_row: f * float")
    .Input("splits: int64")
    .Input("weights: float")
    .Input("grad: float")
    .Output("of_weights: float")
    .Attr("f: int >= 0")
    .Attr("combiner: string")
    .Attr("max_norm: float = 0")
    .Attr("table: int = -1")
    .SetShapeFn(ShapeOfWeights)
    .Doc(R"doc(
Computes the gradient of AscCombine with respect to the weights.

rows: float[n, dim], a row per position. With slots, the table variable or the rows of one batch.
slots, restore, default_row: See AscLookup; one feature. Position i has the row rows[slots[restore[i]]].
splits, combiner, max_norm: See AscCombine.
weights: float[n].
grad: float[bags, dim], the gradient of the output of AscCombine.
of_weights: float[n].
f: 1 with slots, otherwise 0.
table: See AscLookup.
)doc");

REGISTER_OP("AscCombineRowsGrad")
    .Input("grad: float")
    .Input("splits: int64")
    .Input("weights: w * float")
    .Input("rows: r * float")
    .Output("of_rows: float")
    .Attr("w: int >= 0")
    .Attr("r: int >= 0")
    .Attr("combiner: string")
    .Attr("max_norm: float = 0")
    .SetShapeFn(ShapeOfRows)
    .Doc(R"doc(
Computes the gradient of AscCombine with respect to the rows of positions.

If the combined rows were looked up in a table, AscSum replaces this op and AscLookupGrad in the graph of a step.

grad: float[bags, dim], the gradient of the output of AscCombine.
splits, weights, combiner, max_norm: See AscCombine.
rows: float[n, dim], required with max_norm.
of_rows: float[n, dim].
w: 1 with weights, otherwise 0.
r: 1 with rows, otherwise 0.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

// Returns the number of bags that a thread processes as one unit of work.
std::int64_t BlockBags(const Bags& bags, std::int64_t dim) {
  return std::max<std::int64_t>(1, 4 * BlockRows(dim) / (1 + bags.positions / std::max<std::int64_t>(1, bags.count)));
}

Status ReadBagAttributes(OpKernelConstruction* construction, Bags* bags) {
  std::string combiner;
  TF_RETURN_IF_ERROR(construction->GetAttr("combiner", &combiner));
  TF_RETURN_IF_ERROR(ReadCombiner(combiner, &bags->combiner));
  return construction->GetAttr("max_norm", &bags->max_norm);
}

// Base class of the kernels of AscCombine and AscCombineWeightsGrad. CombineInputs reads the inputs of both ops. Only
// AscCombineWeightsGrad may have slots.
class CombineInputs : public tensorflow::OpKernel {
 public:
  explicit CombineInputs(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, ReadBagAttributes(construction, &bags_));
    if (!construction->HasAttr("f")) return;
    OP_REQUIRES_OK(construction, construction->GetAttr("f", &f_));
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES(construction, f_ <= 1, Refuse(Code::kInvalidArgument, type_string(), ": f is ", f_, ", not 0 or 1"));
  }

 protected:
  int splits() const { return 1 + 3 * f_; }  // index of the input

  Status Read(OpKernelContext* ctx, bool weighted, LookupSource* source, BagRows* rows, Bags* bags) const {
    std::int64_t positions;
    if (f_ == 0) {
      const Tensor& given = ctx->input(0);
      if (given.dims() != 2) {
        return Refuse(Code::kInvalidArgument, type_string(), ": rows have shape ", given.shape().DebugString(),
                      ", expected [ids, dim]");
      }
      positions = given.dim_size(0);
      *rows = {{given.flat<float>().data(), positions, given.dim_size(1), nullptr, 0, nullptr}, nullptr};
    } else {
      TF_RETURN_IF_ERROR(source->Read(ctx, 0, 1, table_));
      TF_RETURN_IF_ERROR(source->ReadDefault(ctx, 3));
      positions = ctx->input(2).NumElements();
      *rows = {source->gather(), ctx->input(2).flat<std::int32_t>().data()};
    }
    *bags = bags_;
    return ReadBags(type_string(), ctx->input(splits()), weighted ? &ctx->input(splits() + 1) : nullptr, positions,
                    bags);
  }

  Status Outcome(const LookupSource& source, const BagRows& rows, const FirstBad& bad) const {
    if (bad.none()) return OkStatus();
    return source.BadRestore(type_string(), rows.restore, bad.at(), 0);
  }

 private:
  int f_ = 0, table_ = -1;
  Bags bags_ = {};
};

}  // namespace

class CombineOp : public CombineInputs {
 public:
  explicit CombineOp(OpKernelConstruction* construction) : CombineInputs(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("w", &w_));
  }

  void Compute(OpKernelContext* ctx) override {
    LookupSource source;
    BagRows rows;
    Bags bags;
    OP_REQUIRES_OK(ctx, Read(ctx, w_ > 0, &source, &rows, &bags));
    Tensor* combined;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({bags.count, rows.source.dim}), &combined));
    float* const out = combined->flat<float>().data();
    FirstBad bad;
    ShareBlocks(ctx, bags.count, BlockBags(bags, rows.source.dim), [&](std::int64_t begin, std::int64_t end) {
      bad.Note(CombineBags(rows, bags, begin, end, out, rows.source.dim));
    });
    OP_REQUIRES_OK(ctx, Outcome(source, rows, bad));
  }

 private:
  int w_;
};

class CombineWeightsGradOp : public CombineInputs {
 public:
  using CombineInputs::CombineInputs;

  void Compute(OpKernelContext* ctx) override {
    LookupSource source;
    BagRows rows;
    Bags bags;
    OP_REQUIRES_OK(ctx, Read(ctx, true, &source, &rows, &bags));
    const Tensor& grad = ctx->input(splits() + 2);
    const TensorShape expected({bags.count, rows.source.dim});
    OP_REQUIRES(ctx, grad.shape() == expected,
                Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grad.shape().DebugString(),
                       ", expected ", expected.DebugString()));
    Tensor* of_weights;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({bags.positions}), &of_weights));
    const float* const given = grad.flat<float>().data();
    float* const out = of_weights->flat<float>().data();
    FirstBad bad;
    ShareBlocks(ctx, bags.count, BlockBags(bags, rows.source.dim), [&](std::int64_t begin, std::int64_t end) {
      bad.Note(WeightGradients(rows, bags, given, begin, end, out));
    });
    OP_REQUIRES_OK(ctx, Outcome(source, rows, bad));
  }
};

class CombineRowsGradOp : public tensorflow::OpKernel {
 public:
  explicit CombineRowsGradOp(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("w", &w_));
    OP_REQUIRES_OK(construction, construction->GetAttr("r", &r_));
    OP_REQUIRES_OK(construction, ReadBagAttributes(construction, &bags_));
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor &grad = ctx->input(0), &splits = ctx->input(1);
    const std::int64_t positions =
        splits.NumElements() == 0 ? 0 : splits.flat<tensorflow::int64>()(splits.NumElements() - 1);
    Bags bags = bags_;
    OP_REQUIRES_OK(ctx, ReadBags(type_string(), splits, w_ > 0 ? &ctx->input(2) : nullptr, positions, &bags));
    OP_REQUIRES(ctx, grad.dims() == 2 && grad.dim_size(0) == bags.count,
                Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grad.shape().DebugString(),
                       ", expected [", bags.count, ", dim]"));
    const std::int64_t dim = grad.dim_size(1);
    const TensorShape shape({positions, dim});
    OP_REQUIRES(ctx, bags.max_norm == 0 || (r_ > 0 && ctx->input(2 + w_).shape() == shape),
                Refuse(Code::kInvalidArgument, type_string(), ": max_norm needs rows of shape ", shape.DebugString()));
    Tensor* of_rows;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, shape, &of_rows));
    const float* const rows = bags.max_norm == 0 ? nullptr : ctx->input(2 + w_).flat<float>().data();
    const float* const given = grad.flat<float>().data();
    float* const out = of_rows->flat<float>().data();
    ShareBlocks(ctx, bags.count, BlockBags(bags, dim),
                [&](std::int64_t begin, std::int64_t end) { RowGradients(rows, bags, given, dim, begin, end, out); });
  }

 private:
  int w_, r_;
  Bags bags_ = {};
};

REGISTER_KERNEL_BUILDER(Name("AscCombine").Device(tensorflow::DEVICE_CPU), CombineOp);
REGISTER_KERNEL_BUILDER(Name("AscCombineWeightsGrad").Device(tensorflow::DEVICE_CPU), CombineWeightsGradOp);
REGISTER_KERNEL_BUILDER(Name("AscCombineRowsGrad").Device(tensorflow::DEVICE_CPU), CombineRowsGradOp);

}  // namespace ascpipe
