// AscBagSplits computes the boundaries of the bags of sparse or ragged ids.
#include <algorithm>
#include <vector>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscBagSplits")
    .Input("places: m * int64")
    .Input("shape: s * int64")
    .Output("splits: int64")
    .Attr("m: int >= 1")
    .Attr("s: int >= 0")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Vector(c->UnknownDim()));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Computes the row splits of bags.

All tensors of `places` must be equal. The first tensor belongs to the ids, and the next tensor to their weights.

places: With `shape`, int64[n, 2], the indices of SparseTensors in ascending order of rows. Without `shape`,
  int64[bags + 1], row splits.
shape: int64[2], the dense shapes of the SparseTensors; the first element is the number of bags.
splits: int64[bags + 1]. Bag b contains the ids [splits[b], splits[b + 1]).
)doc");

namespace ascpipe {

class BagSplitsOp : public tensorflow::OpKernel {
 public:
  explicit BagSplitsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("m", &m_));
    OP_REQUIRES_OK(construction, construction->GetAttr("s", &s_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    for (int i = 1; i < m_; ++i) OP_REQUIRES_OK(ctx, RequireEqual(ctx, ctx->input(i)));
    if (s_ == 0) {
      ctx->set_output(0, ctx->input(0));
    } else {
      OP_REQUIRES_OK(ctx, SplitsOfPlaces(ctx));
    }
  }

 private:
  static constexpr std::int64_t kBlock = 1 << 15, kMostBags = (std::int64_t{1} << 31) - 1;

  static const std::int64_t* Numbers(const tensorflow::Tensor& tensor) {
    return reinterpret_cast<const std::int64_t*>(tensor.flat<tensorflow::int64>().data());
  }

  tensorflow::Status RequireEqual(tensorflow::OpKernelContext* ctx, const tensorflow::Tensor& other) const {
    const tensorflow::Tensor& places = ctx->input(0);
    if (other.shape() != places.shape()) {
      return Refuse(kE324, type_string(), ": places of weights have shape ", other.shape().DebugString(),
                    ", those of ids ", places.shape().DebugString(), "; each id has one weight. ", kNothing);
    }
    const std::int64_t *const a = Numbers(places), *const b = Numbers(other);
    FirstBad bad;
    ShareBlocks(ctx, places.NumElements(), 2 * kBlock, [&](std::int64_t begin, std::int64_t end) {
      if (std::equal(a + begin, a + end, b + begin)) return;
      bad.Note(std::mismatch(a + begin, a + end, b + begin).first - a);
    });
    if (bad.none()) return OkStatus();
    return Refuse(kE324, type_string(), ": weights have another place than ids, at element ", bad.at(), " of their ",
                  s_ == 0 ? "row splits" : "indices", ": ", b[bad.at()], " and not ", a[bad.at()], ". ", kNothing);
  }

  tensorflow::Status SplitsOfPlaces(tensorflow::OpKernelContext* ctx) const {
    const tensorflow::Tensor &places = ctx->input(0), &shape = ctx->input(m_);
    if (places.dims() != 2 || places.dim_size(1) != 2 || shape.dims() != 1 || shape.NumElements() != 2) {
      return Refuse(kE324, type_string(), ": indices have shape ", places.shape().DebugString(),
                    " and the dense shape is ", shape.shape().DebugString(), "; ids of bags have rank 2. ", kNothing);
    }
    const std::int64_t bags = Numbers(shape)[0], n = places.dim_size(0);
    if (bags < 0 || bags > kMostBags) {
      return Refuse(kE324, type_string(), ": ", bags, " bags are not in [0, ", kMostBags, "]. ", kNothing);
    }
    tensorflow::Tensor* splits;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, tensorflow::TensorShape({bags + 1}), &splits));
    std::int64_t* const out = reinterpret_cast<std::int64_t*>(splits->flat<tensorflow::int64>().data());
    const std::int64_t* const rows = Numbers(places);
    FirstBad bad;
    ShareBlocks(ctx, n, kBlock, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t before = begin == 0 ? -1 : std::min(std::max<std::int64_t>(rows[2 * (begin - 1)], -1), bags - 1);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = rows[2 * i];
        if (row == before && row >= 0) continue;
        if (row < 0 || row < before || row >= bags) return bad.Note(i);
        std::fill(out + before + 1, out + row + 1, i);
        before = row;
      }
    });
    if (!bad.none()) return OutOfOrder(rows, bad.at(), bags);
    std::fill(out + (n == 0 ? 0 : rows[2 * (n - 1)] + 1), out + bags + 1, n);
    return OkStatus();
  }

  tensorflow::Status OutOfOrder(const std::int64_t* rows, std::int64_t at, std::int64_t bags) const {
    if (rows[2 * at] < 0 || rows[2 * at] >= bags) {
      return Refuse(kE324, type_string(), ": row ", rows[2 * at], " of the id at position ", at, " is not in [0, ",
                    bags, "), the dense shape's bags. ", kNothing);
    }
    return Refuse(kE324, type_string(), ": ids of bags are not in order: row ", rows[2 * at], " at position ", at,
                  " comes after row ", rows[2 * (at - 1)], "; tf.sparse.reorder() sorts them. ", kNothing);
  }

  static constexpr const char* kNothing = "This step trained nothing";

  int m_, s_;
};

constexpr std::int64_t BagSplitsOp::kBlock;
constexpr std::int64_t BagSplitsOp::kMostBags;
constexpr const char* BagSplitsOp::kNothing;

REGISTER_KERNEL_BUILDER(Name("AscBagSplits").Device(tensorflow::DEVICE_CPU), BagSplitsOp);

}  // namespace ascpipe
