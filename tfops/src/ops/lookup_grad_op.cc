// AscLookupGrad, AscLookupConcatGrad: the gradient of lookups with respect to the rows, summed per row.
#include <algorithm>
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
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("grad: float")
    .Output("values: float")
    .Output("indices: int32")
    .Attr("k: int >= 1")
    .Attr("columns: list(int)")
    .Attr("dim: int >= 1")
    .Attr("partial: bool = false")
    .SetShapeFn(ShapesOfSums)
    .Doc(R"doc(
AscLookupGrad where the gradients of all features are columns of one tensor, that of AscLookupConcat.

slots: int32[distinct ids], as given to AscLookupConcat.
restore: int32[batch] or int32[batch, side by side], one per feature, as given to AscLookupConcat.
grad: float[batch, width].
values: float[valid, dim], as of AscLookupGrad.
indices: int32[valid], as of AscLookupGrad.
k: number of features.
columns: of `grad`, where the columns of each feature begin, dim for each id side by side.
dim: length of a row.
partial: as of AscLookupGrad.
)doc");

namespace ascpipe {

// Inputs of both ops: with `columns` there is one gradient for all features.
class LookupGradOp : public tensorflow::OpKernel {
 public:
  explicit LookupGradOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(construction, construction->GetAttr("partial", &partial_));
    if (construction->HasAttr("columns")) OP_REQUIRES_OK(construction, construction->GetAttr("columns", &columns_));
    OP_REQUIRES(construction, columns_.empty() || static_cast<int>(columns_.size()) == k_,
                Refuse(Code::kInvalidArgument, type_string(), ": ", columns_.size(), " columns for ", k_, " features"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& slots = ctx->input(0);
    OP_REQUIRES(ctx, slots.dims() == 1, Refuse(Code::kInvalidArgument, type_string(), ": slots have shape ",
                                               slots.shape().DebugString(), ", expected a vector"));
    const std::int64_t n = slots.NumElements();
    const std::int32_t* slot = slots.flat<std::int32_t>().data();
    std::vector<std::int32_t> own_slots;
    if (partial_) {
      own_slots = OwnSlots(ctx, slot, n);
      slot = own_slots.data();
    }
    const std::int64_t valid = std::count_if(slot, slot + n, IsTrained);
    tensorflow::Tensor* values;
    tensorflow::Tensor* indices;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({valid, dim_}), &values));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, tensorflow::TensorShape({valid}), &indices));
    std::vector<std::int32_t> places(static_cast<std::size_t>(n));
    NumberValidSlots(slot, n, places.data(), indices->flat<std::int32_t>().data());
    std::vector<LookupGradient> lookups(static_cast<std::size_t>(k_));
    for (int i = 0; i < k_; ++i) OP_REQUIRES_OK(ctx, ReadLookup(ctx, i, &lookups[i]));
    OP_REQUIRES_OK(ctx, Add(ctx, places, lookups, valid, values->flat<float>().data()));
  }

 private:
  // The slots, with -1 for ids that none of the features has.  AddGradients reports a bad restore index.
  std::vector<std::int32_t> OwnSlots(tensorflow::OpKernelContext* ctx, const std::int32_t* slot, std::int64_t n) const {
    std::vector<std::int32_t> own(static_cast<std::size_t>(n), -1);
    for (int which = 0; which < k_; ++which) {
      const auto indexes = ctx->input(1 + which).flat<std::int32_t>();
      for (std::int64_t i = 0; i < indexes.size(); ++i) {
        const std::int64_t index = indexes(i);
        if (index >= 0 && index < n) own[index] = slot[index];
      }
    }
    return own;
  }

  tensorflow::Status ReadLookup(tensorflow::OpKernelContext* ctx, int which, LookupGradient* lookup) const {
    const tensorflow::Tensor& restore = ctx->input(1 + which);
    const tensorflow::Tensor& grads = ctx->input(1 + k_ + (columns_.empty() ? which : 0));
    if (!columns_.empty()) return ReadColumns(restore, grads, which, lookup);
    tensorflow::TensorShape expected = restore.shape();
    expected.AddDim(dim_);
    if (grads.shape() != expected) {
      return Refuse(Code::kInvalidArgument, type_string(), ": gradient ", which, " has shape ",
                    grads.shape().DebugString(), ", expected ", expected.DebugString());
    }
    *lookup = {restore.flat<std::int32_t>().data(), grads.flat<float>().data(), restore.NumElements(), dim_};
    return tensorflow::Status::OK();
  }

  tensorflow::Status ReadColumns(const tensorflow::Tensor& restore, const tensorflow::Tensor& grad, int which,
                                 LookupGradient* lookup) const {
    const bool is_restore = restore.dims() == 1 || restore.dims() == 2;
    const std::int64_t batch = is_restore ? restore.dim_size(0) : -1;
    const std::int64_t side_by_side = restore.dims() == 2 ? restore.dim_size(1) : 1;
    const std::int64_t end = columns_[which] + side_by_side * dim_;
    if (grad.dims() != 2 || grad.dim_size(0) != batch || columns_[which] < 0 || end > grad.dim_size(1)) {
      return Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grad.shape().DebugString(),
                    ", expected columns ", columns_[which], " to ", end, " for feature ", which, ", whose ids have shape ",
                    restore.shape().DebugString());
    }
    *lookup = {restore.flat<std::int32_t>().data(), grad.flat<float>().data() + columns_[which],
               restore.NumElements(), grad.dim_size(1), std::max<std::int64_t>(1, side_by_side)};
    return tensorflow::Status::OK();
  }

  // On one thread, or dealt out to threads if there are enough of them for that to pay.
  tensorflow::Status Add(tensorflow::OpKernelContext* ctx, const std::vector<std::int32_t>& places,
                         const std::vector<LookupGradient>& lookups, std::int64_t valid, float* sums) const {
    const std::int64_t place_count = static_cast<std::int64_t>(places.size());
    std::int64_t positions = 0;
    for (const LookupGradient& lookup : lookups) positions += lookup.n;
    BadIndex bad;
    if (ctx->device()->tensorflow_cpu_worker_threads()->num_threads < kLeastThreads || positions < kLeastPositions) {
      std::fill(sums, sums + valid * dim_, 0.0f);
      for (int i = 0; i < k_ && bad.position < 0; ++i) {
        bad = {i, AddGradients(places.data(), place_count, lookups[i], dim_, sums)};
      }
    } else {
      DealtGradients dealt(places.data(), place_count, lookups, dim_);
      ShareBlocks(ctx, dealt.chunks(), 1, [&dealt](std::int64_t begin, std::int64_t end) { dealt.Deal(begin, end); });
      bad = dealt.bad();
      if (bad.position < 0) {
        ShareBlocks(ctx, DealtGradients::kHands, 1,
                    [&](std::int64_t begin, std::int64_t end) { dealt.Add(begin, end, valid, sums); });
      }
    }
    if (bad.position < 0) return tensorflow::Status::OK();
    return Refuse(Code::kInvalidArgument, type_string(), ": restore index ", lookups[bad.lookup].restore[bad.position],
                  " at position ", bad.position, " of lookup ", bad.lookup, " is outside [0, ", place_count,
                  ") and not -1");
  }

  static constexpr int kLeastThreads = 4;
  static constexpr std::int64_t kLeastPositions = 4096;

  int k_;
  tensorflow::int64 dim_;
  bool partial_;
  std::vector<tensorflow::int32> columns_;  // of AscLookupConcatGrad
};

REGISTER_KERNEL_BUILDER(Name("AscLookupGrad").Device(tensorflow::DEVICE_CPU), LookupGradOp);
REGISTER_KERNEL_BUILDER(Name("AscLookupConcatGrad").Device(tensorflow::DEVICE_CPU), LookupGradOp);

}  // namespace ascpipe
