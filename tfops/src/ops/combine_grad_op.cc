// AscCombineGrad: AscLookupGrad of lookups whose rows are combined to one for each bag.
#include <algorithm>
#include <string>
#include <vector>

#include "bridge/bag_inputs.h"
#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/bag_gradients.h"
#include "core/segment_sum.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscCombineGrad")
    .Input("rows: r * float")
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("grads: k * float")
    .Input("splits: m * int64")
    .Input("weights: w * float")
    .Output("values: float")
    .Output("indices: int32")
    .Attr("r: int >= 0")
    .Attr("k: int >= 1")
    .Attr("m: int >= 0")
    .Attr("w: int >= 0")
    .Attr("bags: list(int)")
    .Attr("weighted: list(int)")
    .Attr("combiners: list(string)")
    .Attr("max_norms: list(float)")
    .Attr("dim: int >= 1")
    .Attr("partial: bool = false")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::int64 dim;
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      const auto valid = c->UnknownDim();
      c->set_output(0, c->Matrix(valid, c->MakeDim(dim)));
      c->set_output(1, c->Vector(valid));
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
AscLookupGrad where the gradients of some features are those of AscCombine: there is no gradient for each id.

The order of the additions of a row is that of AscLookupGrad.  Rows that were cut by max_norm get the gradient of that
once, for the sum over the bags of a feature.

rows: float[any, dim], the rows that `slots` names; needed with a max_norm.
slots, restore, dim, partial, values, indices: as of AscLookupGrad.
grads: float, of a feature whose rows are combined [bags, dim], else the shape of restore_j followed by dim.
splits: int64[bags + 1], of AscBagSplits.
weights: float[ids].
bags: of each feature, which of `splits` it has; -1: its rows are not combined.
weighted: of each feature, which of `weights` it has; -1: none.
combiners: of each feature sum, mean or sqrtn; of one that is not combined without meaning.
max_norms: of each feature, as of AscCombine.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class CombineGradOp : public tensorflow::OpKernel {
 public:
  explicit CombineGradOp(OpKernelConstruction* construction) : OpKernel(construction) {
    std::vector<std::string> combiners;
    std::vector<float> max_norms;
    OP_REQUIRES_OK(construction, construction->GetAttr("r", &r_));
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("m", &m_));
    OP_REQUIRES_OK(construction, construction->GetAttr("w", &w_));
    OP_REQUIRES_OK(construction, construction->GetAttr("bags", &bags_));
    OP_REQUIRES_OK(construction, construction->GetAttr("weighted", &weighted_));
    OP_REQUIRES_OK(construction, construction->GetAttr("combiners", &combiners));
    OP_REQUIRES_OK(construction, construction->GetAttr("max_norms", &max_norms));
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(construction, construction->GetAttr("partial", &partial_));
    const std::size_t k = static_cast<std::size_t>(k_);
    OP_REQUIRES(construction,
                bags_.size() == k && weighted_.size() == k && combiners.size() == k && max_norms.size() == k,
                Refuse(Code::kInvalidArgument, type_string(), ": attributes of another number of features than ", k_));
    lookups_.resize(k);
    for (std::size_t i = 0; i < k; ++i) {
      OP_REQUIRES(construction, bags_[i] < m_ && weighted_[i] < w_ && (max_norms[i] == 0 || r_ > 0),
                  Refuse(Code::kInvalidArgument, type_string(), ": feature ", i, " has splits ", bags_[i], " of ", m_,
                         ", weights ", weighted_[i], " of ", w_, " and max_norm ", max_norms[i], " with ", r_,
                         " tensors of rows"));
      lookups_[i].has_bags = bags_[i] >= 0;
      if (!lookups_[i].has_bags) continue;
      OP_REQUIRES_OK(construction, ReadCombiner(combiners[i], &lookups_[i].bags.combiner));
      lookups_[i].bags.max_norm = max_norms[i];
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const Tensor& slots = ctx->input(r_);
    OP_REQUIRES(ctx, slots.dims() == 1,
                Refuse(Code::kInvalidArgument, type_string(), ": slots have shape ", slots.shape().DebugString(),
                       ", expected a vector"));
    std::vector<BagGradient> lookups;
    OP_REQUIRES_OK(ctx, Read(ctx, &lookups));
    std::vector<std::int32_t> own, places(static_cast<std::size_t>(slots.NumElements()));
    const std::int32_t* used = slots.flat<std::int32_t>().data();
    const std::int64_t count = slots.NumElements();
    if (partial_) {
      own = OwnSlots(used, count, lookups);
      used = own.data();
    }
    const std::int64_t valid = std::count_if(used, used + count, IsTrained);
    Tensor *values, *indices;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({valid, dim_}), &values));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, TensorShape({valid}), &indices));
    NumberValidSlots(used, count, places.data(), indices->flat<std::int32_t>().data());
    OP_REQUIRES_OK(ctx, RequireRows(ctx, *indices));
    OP_REQUIRES_OK(ctx, Sum(ctx, lookups, places, *indices, values->flat<float>().data()));
  }

 private:
  Status Read(OpKernelContext* ctx, std::vector<BagGradient>* lookups) const {
    *lookups = lookups_;
    for (int i = 0; i < k_; ++i) {
      const Tensor &restore = ctx->input(r_ + 1 + i), &grads = ctx->input(r_ + 1 + k_ + i);
      BagGradient& lookup = (*lookups)[static_cast<std::size_t>(i)];
      lookup.restore = restore.flat<std::int32_t>().data();
      lookup.grads = grads.flat<float>().data();
      lookup.n = restore.NumElements();
      TensorShape expected = restore.shape();
      if (lookup.has_bags) {
        const int splits = r_ + 1 + 2 * k_ + bags_[i], weights = r_ + 1 + 2 * k_ + m_ + weighted_[i];
        TF_RETURN_IF_ERROR(ReadBags(type_string(), ctx->input(splits),
                                    weighted_[i] < 0 ? nullptr : &ctx->input(weights), lookup.n, &lookup.bags));
        expected = TensorShape({lookup.bags.count});
      }
      expected.AddDim(dim_);
      if (grads.shape() != expected) {
        return Refuse(Code::kInvalidArgument, type_string(), ": gradient ", i, " has shape ",
                      grads.shape().DebugString(), ", expected ", expected.DebugString());
      }
    }
    return Status::OK();
  }

  // The slots of ids that these features have; of others -1.
  static std::vector<std::int32_t> OwnSlots(const std::int32_t* slots, std::int64_t count,
                                            const std::vector<BagGradient>& lookups) {
    std::vector<std::int32_t> own(static_cast<std::size_t>(count), -1);
    for (const BagGradient& lookup : lookups) {
      for (std::int64_t i = 0; i < lookup.n; ++i) {
        const std::int64_t index = lookup.restore[i];
        if (index >= 0 && index < count) own[static_cast<std::size_t>(index)] = slots[index];
      }
    }
    return own;
  }

  // Whether all indices are of `rows`, where there are any.
  Status RequireRows(OpKernelContext* ctx, const Tensor& indices) const {
    if (r_ == 0) return Status::OK();
    const Tensor& rows = ctx->input(0);
    const auto numbers = indices.flat<std::int32_t>();
    const std::int64_t count = rows.dims() == 2 && rows.dim_size(1) == dim_ ? rows.dim_size(0) : 0;
    for (std::int64_t i = 0; i < numbers.size(); ++i) {
      if (numbers(i) < count) continue;
      return Refuse(Code::kInvalidArgument, type_string(), ": slot ", numbers(i), " is not of rows of shape ",
                    rows.shape().DebugString(), " with dim ", dim_);
    }
    return Status::OK();
  }

  Status Sum(OpKernelContext* ctx, const std::vector<BagGradient>& lookups, const std::vector<std::int32_t>& places,
             const Tensor& indices, float* sums) const {
    const std::int64_t count = static_cast<std::int64_t>(places.size()), valid = indices.NumElements();
    const auto clips = [](const BagGradient& lookup) { return lookup.has_bags && lookup.bags.max_norm != 0; };
    Tensor clipped;
    if (std::any_of(lookups.begin(), lookups.end(), clips)) {
      TF_RETURN_IF_ERROR(ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({valid, dim_}), &clipped));
    }
    std::int64_t positions = 0;
    for (const BagGradient& lookup : lookups) positions += lookup.n;
    const std::int64_t threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
    const std::int64_t parts = positions < kLeastPositions ? 1 : std::min<std::int64_t>(threads, kMostParts);
    std::vector<FirstBad> bad(lookups.size());
    ShareBlocks(ctx, parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t number = begin; number < end; ++number) {
        const SumPart part = {number, parts};
        ZeroPart(part, valid, dim_, sums);
        for (std::size_t i = 0; i < lookups.size(); ++i) {
          float* into = sums;
          if (clips(lookups[i])) {
            into = clipped.flat<float>().data();
            ZeroPart(part, valid, dim_, into);
          }
          bad[i].Note(AddBagGradients(places.data(), count, lookups[i], dim_, part, into));
          if (into == sums) continue;
          AddClipped(ctx->input(0).flat<float>().data(), indices.flat<std::int32_t>().data(), lookups[i].bags.max_norm,
                     into, valid, dim_, part, sums);
        }
      }
    });
    for (std::size_t i = 0; i < lookups.size(); ++i) {
      if (bad[i].none()) continue;
      return Refuse(Code::kInvalidArgument, type_string(), ": restore index ", lookups[i].restore[bad[i].at()],
                    " at position ", bad[i].at(), " of lookup ", i, " is outside [0, ", count, ") and not -1");
    }
    return Status::OK();
  }

  static constexpr std::int64_t kMostParts = 8;  // each reads all positions
  static constexpr std::int64_t kLeastPositions = 4096;

  int r_, k_, m_, w_;
  std::vector<tensorflow::int32> bags_, weighted_;
  std::vector<BagGradient> lookups_;  // what attributes say of them
  tensorflow::int64 dim_;
  bool partial_;
};

constexpr std::int64_t CombineGradOp::kMostParts;
constexpr std::int64_t CombineGradOp::kLeastPositions;

REGISTER_KERNEL_BUILDER(Name("AscCombineGrad").Device(tensorflow::DEVICE_CPU), CombineGradOp);

}  // namespace ascpipe
