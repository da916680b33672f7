// AscLookupGrad, AscLookupConcatGrad: the gradient of lookups with respect to the rows, summed per row.
#include <algorithm>
#include <utility>
#include <vector>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/dealt_gradients.h"
#include "core/segment_sum.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

tensorflow::Status ShapesOfSums(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle slots;
  tensorflow::int64 dim;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &slots));
  TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
  const auto valid = c->UnknownDim();
  c->set_output(0, c->Matrix(valid, c->MakeDim(dim)));
  c->set_output(1, c->Vector(valid));
  return tensorflow::Status::OK();
}

tensorflow::Status ShapesOfTables(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle slots;
  std::vector<tensorflow::int32> dims;
  TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
  const int n = c->num_outputs() / 2;
  if (static_cast<int>(dims.size()) != n) {
    return tensorflow::errors::InvalidArgument("AscLookupConcatGrad: ", dims.size(), " dims for ", n, " tables");
  }
  for (int i = 0; i < n; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 1, &slots));
    const auto valid = c->UnknownDim();
    c->set_output(i, c->Matrix(valid, c->MakeDim(dims[i])));
    c->set_output(n + i, c->Vector(valid));
  }
  return tensorflow::Status::OK();
}

}  // namespace

REGISTER_OP("AscLookupGrad")
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("grads: k * float")
    .Output("values: float")
    .Output("indices: int32")
    .Attr("k: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("partial: bool = false")
    .SetShapeFn(ShapesOfSums)
    .Doc(R"doc(
Sums the gradients of all features of a table per row, in canonical order.

The order of the additions of a row is: feature 0 to k-1, then position in the batch.  So the sum is
bit-equal to unsorted_segment_sum over the concatenated gradients, at any number of threads.

slots: int32[distinct ids], as given to AscLookup.
restore: int32, one per feature, as given to AscLookup.
grads: float, the shape of restore_j followed by dim.
values: float[valid, dim], sums of the distinct ids whose slot is neither -1 nor frozen, in the order of slots.
indices: int32[valid], their slots: no repeats, none negative.
k: number of features.
dim: length of a row.
partial: whether slots holds ids of other features too; those that none of these features has are left out,
  since a row without a gradient is not trained.
)doc");

REGISTER_OP("AscLookupConcatGrad")
    .Input("slots: n * int32")
    .Input("restore: k * int32")
    .Input("grad: float")
    .Output("values: n * float")
    .Output("indices: n * int32")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("dims: list(int)")
    .Attr("sources: list(int)")
    .Attr("columns: list(int)")
    .Attr("partial: list(bool)")
    .SetShapeFn(ShapesOfTables)
    .Doc(R"doc(
AscLookupGrad of several tables where the gradients of all features are columns of one tensor, that of AscLookupConcat.

slots: int32[distinct ids], one for each table, as given to AscLookupConcat.
restore: int32[batch] or int32[batch, side by side], one per feature, as given to AscLookupConcat.
grad: float[batch or more, width]; rows beyond the batch are not read.
values: float[valid, dim], of each table as of AscLookupGrad.
indices: int32[valid], of each table as of AscLookupGrad.
n: number of tables.
k: number of features.
dims: length of a row of each table.
sources: of each feature, which of `slots` it reads; sums of a table are made in the order of its features.
columns: of `grad`, where the columns of each feature begin, dim for each id side by side.
partial: of each table, as of AscLookupGrad.
)doc");

namespace ascpipe {

namespace {

// The sums of one table.
class TableSums {
 public:
  // The slots of a table; of those that no feature of `lookups` has none is trained if the sums are partial.
  tensorflow::Status Begin(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& slots, tensorflow::int64 dim,
                           bool partial, std::vector<LookupGradient> lookups) {
    if (slots.dims() != 1) {
      return Refuse(Code::kInvalidArgument, ctx->op_kernel().type_string(), ": slots have shape ",
                    slots.shape().DebugString(), ", expected a vector");
    }
    count_ = slots.NumElements();
    slots_ = slots.flat<std::int32_t>().data();
    dim_ = dim;
    lookups_ = std::move(lookups);
    if (partial) KeepOwnSlots();
    valid_ = std::count_if(slots_, slots_ + count_, IsTrained);
    return tensorflow::Status::OK();
  }

  tensorflow::Status Allocate(tensorflow::OpKernelContext* ctx, int values, int indices) {
    tensorflow::Tensor* out;
    TF_RETURN_IF_ERROR(ctx->allocate_output(values, tensorflow::TensorShape({valid_, dim_}), &out));
    sums_ = out->flat<float>().data();
    TF_RETURN_IF_ERROR(ctx->allocate_output(indices, tensorflow::TensorShape({valid_}), &out));
    indices_ = out->flat<std::int32_t>().data();
    return tensorflow::Status::OK();
  }

  std::int64_t positions() const {
    std::int64_t positions = 0;
    for (const LookupGradient& lookup : lookups_) positions += lookup.n;
    return positions;
  }

  // On this thread.
  void Add() {
    Number();
    std::fill(sums_, sums_ + valid_ * dim_, 0.0f);
    for (std::size_t i = 0; i < lookups_.size() && bad_.position < 0; ++i) {
      bad_ = {static_cast<int>(i), AddGradients(places_.data(), count_, lookups_[i], dim_, sums_)};
    }
  }

  // Dealt out to threads; the same bits.
  void AddTogether(tensorflow::OpKernelContext* ctx) {
    Number();
    DealtGradients dealt(places_.data(), count_, lookups_, dim_);
    ShareBlocks(ctx, dealt.chunks(), 1, [&dealt](std::int64_t begin, std::int64_t end) { dealt.Deal(begin, end); });
    bad_ = dealt.bad();
    if (bad_.position >= 0) return;
    ShareBlocks(ctx, DealtGradients::kHands, 1,
                [&](std::int64_t begin, std::int64_t end) { dealt.Add(begin, end, valid_, sums_); });
  }

  tensorflow::Status Outcome(tensorflow::OpKernelContext* ctx) const {
    if (bad_.position < 0) return tensorflow::Status::OK();
    return Refuse(Code::kInvalidArgument, ctx->op_kernel().type_string(), ": restore index ",
                  lookups_[bad_.lookup].restore[bad_.position], " at position ", bad_.position, " of lookup ",
                  bad_.lookup, " is outside [0, ", count_, ") and not -1");
  }

 private:
  // AddGradients reports a bad restore index.
  void KeepOwnSlots() {
    own_slots_.assign(static_cast<std::size_t>(count_), -1);
    for (const LookupGradient& lookup : lookups_) {
      for (std::int64_t i = 0; i < lookup.n; ++i) {
        const std::int64_t index = lookup.restore[i];
        if (index >= 0 && index < count_) own_slots_[index] = slots_[index];
      }
    }
    slots_ = own_slots_.data();
  }

  void Number() {
    places_.resize(static_cast<std::size_t>(count_));
    NumberValidSlots(slots_, count_, places_.data(), indices_);
  }

  const std::int32_t* slots_ = nullptr;
  std::int64_t count_ = 0, valid_ = 0;
  tensorflow::int64 dim_ = 0;
  std::vector<LookupGradient> lookups_;
  std::vector<std::int32_t> own_slots_, places_;
  float* sums_ = nullptr;
  std::int32_t* indices_ = nullptr;
  BadIndex bad_;
};

constexpr int kLeastThreads = 4;  // with fewer, or with less to add, dealing costs more than it gives
constexpr std::int64_t kLeastPositions = 4096;

// Threads take a table each, or, where there are more threads than tables, share the rows of a table.
tensorflow::Status AddTables(tensorflow::OpKernelContext* ctx, std::vector<TableSums>* tables) {
  const int count = static_cast<int>(tables->size());
  for (int i = 0; i < count; ++i) TF_RETURN_IF_ERROR((*tables)[i].Allocate(ctx, i, count + i));
  const int threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
  const auto dealt = [&](const TableSums& sums) {
    return threads >= std::max(kLeastThreads, count + 1) && sums.positions() >= kLeastPositions;
  };
  ShareBlocks(ctx, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (!dealt((*tables)[i])) (*tables)[i].Add();
    }
  });
  for (TableSums& sums : *tables) {
    if (dealt(sums)) sums.AddTogether(ctx);
    TF_RETURN_IF_ERROR(sums.Outcome(ctx));
  }
  return tensorflow::Status::OK();
}

}  // namespace

class LookupGradOp : public tensorflow::OpKernel {
 public:
  explicit LookupGradOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(construction, construction->GetAttr("partial", &partial_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<LookupGradient> lookups(static_cast<std::size_t>(k_));
    for (int i = 0; i < k_; ++i) {
      const tensorflow::Tensor& restore = ctx->input(1 + i);
      const tensorflow::Tensor& grads = ctx->input(1 + k_ + i);
      tensorflow::TensorShape expected = restore.shape();
      expected.AddDim(dim_);
      OP_REQUIRES(ctx, grads.shape() == expected,
                  Refuse(Code::kInvalidArgument, type_string(), ": gradient ", i, " has shape ",
                         grads.shape().DebugString(), ", expected ", expected.DebugString()));
      lookups[i] = {restore.flat<std::int32_t>().data(), grads.flat<float>().data(), restore.NumElements(), dim_};
    }
    std::vector<TableSums> tables(1);
    OP_REQUIRES_OK(ctx, tables[0].Begin(ctx, ctx->input(0), dim_, partial_, std::move(lookups)));
    OP_REQUIRES_OK(ctx, AddTables(ctx, &tables));
  }

 private:
  int k_;
  tensorflow::int64 dim_;
  bool partial_;
};

class LookupConcatGradOp : public tensorflow::OpKernel {
 public:
  explicit LookupConcatGradOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("n", &n_));
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dims", &dims_));
    OP_REQUIRES_OK(construction, construction->GetAttr("sources", &sources_));
    OP_REQUIRES_OK(construction, construction->GetAttr("columns", &columns_));
    OP_REQUIRES_OK(construction, construction->GetAttr("partial", &partial_));
    bool fits = static_cast<int>(dims_.size()) == n_ && static_cast<int>(partial_.size()) == n_ &&
                static_cast<int>(sources_.size()) == k_ && static_cast<int>(columns_.size()) == k_;
    for (const tensorflow::int32 source : sources_) fits = fits && source >= 0 && source < n_;
    for (const tensorflow::int32 dim : dims_) fits = fits && dim >= 1;
    OP_REQUIRES(construction, fits,
                Refuse(Code::kInvalidArgument, "AscLookupConcatGrad: dims and partial must have ", n_, " values, sources ",
                       "and columns ", k_, ", dims be at least 1, sources in [0, ", n_, ")"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<std::vector<LookupGradient>> lookups(static_cast<std::size_t>(n_));
    for (int i = 0; i < k_; ++i) {
      LookupGradient lookup;
      OP_REQUIRES_OK(ctx, ReadColumns(ctx->input(n_ + i), ctx->input(n_ + k_), i, &lookup));
      lookups[sources_[i]].push_back(lookup);
    }
    std::vector<TableSums> tables(static_cast<std::size_t>(n_));
    for (int i = 0; i < n_; ++i) {
      OP_REQUIRES_OK(ctx, tables[i].Begin(ctx, ctx->input(i), dims_[i], partial_[i], std::move(lookups[i])));
    }
    OP_REQUIRES_OK(ctx, AddTables(ctx, &tables));
  }

 private:
  tensorflow::Status ReadColumns(const tensorflow::Tensor& restore, const tensorflow::Tensor& grad, int which,
                                 LookupGradient* lookup) const {
    const bool is_restore = restore.dims() == 1 || restore.dims() == 2;
    const std::int64_t batch = is_restore ? restore.dim_size(0) : -1;
    const std::int64_t side_by_side = restore.dims() == 2 ? restore.dim_size(1) : 1;
    const std::int64_t end = columns_[which] + side_by_side * dims_[sources_[which]];
    if (!is_restore || grad.dims() != 2 || grad.dim_size(0) < batch || columns_[which] < 0 || end > grad.dim_size(1)) {
      return Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grad.shape().DebugString(),
                    ", expected columns ", columns_[which], " to ", end, " for feature ", which, ", whose ids have shape ",
                    restore.shape().DebugString());
    }
    *lookup = {restore.flat<std::int32_t>().data(), grad.flat<float>().data() + columns_[which],
               restore.NumElements(), grad.dim_size(1), std::max<std::int64_t>(1, side_by_side)};
    return tensorflow::Status::OK();
  }

  int n_, k_;
  std::vector<tensorflow::int32> dims_, sources_, columns_;
  std::vector<bool> partial_;
};

REGISTER_KERNEL_BUILDER(Name("AscLookupGrad").Device(tensorflow::DEVICE_CPU), LookupGradOp);
REGISTER_KERNEL_BUILDER(Name("AscLookupConcatGrad").Device(tensorflow::DEVICE_CPU), LookupConcatGradOp);

}  // namespace ascpipe
