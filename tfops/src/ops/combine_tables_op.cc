// AscCombineTables: AscCombine of several tables, and of columns beside them, in one pass.
#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "bridge/bag_inputs.h"
#include "bridge/lookup_source.h"
#include "bridge/parallel.h"
#include "core/row_copy.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using Integers = std::vector<tensorflow::int32>;

// Whether `order` has each of `features` and `others` once, and `pieces` of them make the outputs.
bool AreOutputs(const Integers& order, const Integers& pieces, int features, int others, int outputs) {
  Integers sorted = order, all(static_cast<std::size_t>(features + others));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  return sorted == all && static_cast<int>(pieces.size()) == outputs &&
         std::all_of(pieces.begin(), pieces.end(), [](tensorflow::int32 count) { return count >= 1; }) &&
         std::accumulate(pieces.begin(), pieces.end(), 0) == features + others;
}

tensorflow::Status ShapesOfOutputs(tensorflow::shape_inference::InferenceContext* c) {
  int k, w, m, o;
  Integers order, pieces;
  TF_RETURN_IF_ERROR(c->GetAttr("k", &k));
  TF_RETURN_IF_ERROR(c->GetAttr("w", &w));
  TF_RETURN_IF_ERROR(c->GetAttr("m", &m));
  TF_RETURN_IF_ERROR(c->GetAttr("o", &o));
  TF_RETURN_IF_ERROR(c->GetAttr("order", &order));
  TF_RETURN_IF_ERROR(c->GetAttr("pieces", &pieces));
  if (!AreOutputs(order, pieces, k, m, o)) {
    return tensorflow::errors::InvalidArgument("AscCombineTables: order must have each of 0 to ", k + m - 1,
                                               " once, and pieces as many in ", o, " outputs");
  }
  auto piece = order.begin();
  for (int output = 0; output < o; ++output) {
    auto bags = c->UnknownDim(), width = c->MakeDim(0);
    for (int i = 0; i < pieces[static_cast<std::size_t>(output)]; ++i, ++piece) {
      const bool is_feature = *piece < k;
      tensorflow::shape_inference::ShapeHandle columns, rows;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(is_feature ? *piece : 5 * k + w + *piece - k), 2, &columns));
      auto count = c->Dim(columns, 0);
      if (is_feature) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(4 * k + *piece), 1, &rows));
        TF_RETURN_IF_ERROR(c->Subtract(c->Dim(rows, 0), 1, &count));
      }
      TF_RETURN_IF_ERROR(c->Merge(bags, count, &bags));
      TF_RETURN_IF_ERROR(c->Add(width, c->Dim(columns, 1), &width));
    }
    c->set_output(output, c->Matrix(bags, width));
  }
  return tensorflow::Status::OK();
}

}  // namespace

REGISTER_OP("AscCombineTables")
    .Input("rows: k * float")
    .Input("slots: k * int32")
    .Input("restore: k * int32")
    .Input("default_row: k * float")
    .Input("splits: k * int64")
    .Input("weights: w * float")
    .Input("others: m * float")
    .Output("combined: o * float")
    .Attr("k: int >= 1")
    .Attr("w: int >= 0")
    .Attr("m: int >= 0")
    .Attr("o: int >= 1")
    .Attr("tables: list(int)")
    .Attr("weighted: list(int)")
    .Attr("combiners: list(string)")
    .Attr("max_norms: list(float)")
    .Attr("order: list(int)")
    .Attr("pieces: list(int)")
    .SetShapeFn(ShapesOfOutputs)
    .Doc(R"doc(
Combines the rows of bags of several features, each as AscCombine does with slots, and writes them side by side with
other columns where the program joins them.

rows, slots, restore, default_row, splits, weights: as of AscCombine with slots; all but weights for each feature.
others: float[bags, columns], copied.
combined: float[bags, width].
k: number of features.
w: number of `weights`.
m: number of other tensors.
o: number of outputs.
tables: of each feature, as `table` of AscCombine.
weighted: of each feature, which of `weights` it has; -1: none.
combiners: of each feature sum, mean or sqrtn.
max_norms: of each feature, as of AscCombine.
order: what stands side by side, one output after the other: i below k for feature i, k + i for others i; each once.
pieces: of each output, how many of `order` it has.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

class CombineTablesOp : public tensorflow::OpKernel {
 public:
  explicit CombineTablesOp(OpKernelConstruction* construction) : OpKernel(construction) {
    std::vector<std::string> combiners;
    std::vector<float> max_norms;
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("w", &w_));
    OP_REQUIRES_OK(construction, construction->GetAttr("m", &m_));
    OP_REQUIRES_OK(construction, construction->GetAttr("o", &o_));
    OP_REQUIRES_OK(construction, construction->GetAttr("tables", &tables_));
    OP_REQUIRES_OK(construction, construction->GetAttr("weighted", &weighted_));
    OP_REQUIRES_OK(construction, construction->GetAttr("combiners", &combiners));
    OP_REQUIRES_OK(construction, construction->GetAttr("max_norms", &max_norms));
    OP_REQUIRES_OK(construction, construction->GetAttr("order", &order_));
    OP_REQUIRES_OK(construction, construction->GetAttr("pieces", &pieces_));
    const std::size_t k = static_cast<std::size_t>(k_);
    OP_REQUIRES(construction,
                tables_.size() == k && weighted_.size() == k && combiners.size() == k && max_norms.size() == k &&
                    std::all_of(weighted_.begin(), weighted_.end(), [this](int which) { return which < w_; }) &&
                    AreOutputs(order_, pieces_, k_, m_, o_),
                Refuse(Code::kInvalidArgument, type_string(), ": attributes do not fit ", k_, " features, ", w_,
                       " weights, ", m_, " other tensors and ", o_, " outputs"));
    for (std::size_t i = 0; i < k; ++i) {
      Bags bags = {};
      OP_REQUIRES_OK(construction, ReadCombiner(combiners[i], &bags.combiner));
      bags.max_norm = max_norms[i];
      known_.push_back(bags);
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::deque<LookupSource> sources(static_cast<std::size_t>(k_));
    std::vector<Feature> features(static_cast<std::size_t>(k_));
    for (int i = 0; i < k_; ++i) {
      const std::size_t feature = static_cast<std::size_t>(i);
      OP_REQUIRES_OK(ctx, Read(ctx, i, &sources[feature], &features[feature]));
    }
    std::vector<Joined> outputs(static_cast<std::size_t>(o_));
    std::int64_t blocks = 0;
    auto piece = order_.begin();
    for (int i = 0; i < o_; ++i) {
      Joined& output = outputs[static_cast<std::size_t>(i)];
      const auto next = piece + pieces_[static_cast<std::size_t>(i)];
      OP_REQUIRES_OK(ctx, Describe(ctx, {piece, next}, features, &output));
      piece = next;
      Tensor* made;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, TensorShape({output.count, output.width}), &made));
      output.out = made->flat<float>().data();
      output.first_block = blocks;
      blocks += (output.count + output.block - 1) / output.block;
    }
    std::vector<FirstBad> bad(static_cast<std::size_t>(k_));
    ShareBlocks(ctx, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const auto after = std::upper_bound(outputs.begin(), outputs.end(), block, [](std::int64_t number, const Joined& at) {
          return number < at.first_block;
        });
        Write(*(after - 1), block, features, &bad);
      }
    });
    for (int i = 0; i < k_; ++i) {
      const std::size_t feature = static_cast<std::size_t>(i);
      if (bad[feature].none()) continue;
      OP_REQUIRES_OK(ctx, sources[feature].BadRestore(type_string(), {features[feature].rows.restore, 0, nullptr, 0},
                                                      bad[feature].at(), i));
    }
  }

 private:
  struct Feature {
    BagRows rows;
    Bags bags;
  };

  // One of the tensors that stand side by side in an output.
  struct Piece {
    int feature;           // -1: another tensor
    const float* columns;  // of that tensor
    std::int64_t count, width;
    std::int64_t column;   // where it begins in the output
  };

  struct Joined {
    std::vector<Piece> pieces;
    std::int64_t count = 0, width = 0;
    float* out = nullptr;
    std::int64_t block = 1;        // bags that one thread takes at a time
    std::int64_t first_block = 0;  // among those of all outputs
  };

  Status Read(OpKernelContext* ctx, int i, LookupSource* source, Feature* feature) const {
    const std::size_t place = static_cast<std::size_t>(i);
    const Tensor& restore = ctx->input(2 * k_ + i);
    TF_RETURN_IF_ERROR(source->Read(ctx, i, k_ + i, tables_[place]));
    TF_RETURN_IF_ERROR(source->ReadDefault(ctx, 3 * k_ + i));
    feature->rows = {source->gather(), restore.flat<std::int32_t>().data()};
    feature->bags = known_[place];
    const Tensor* const weights = weighted_[place] < 0 ? nullptr : &ctx->input(5 * k_ + weighted_[place]);
    return ReadBags(type_string(), ctx->input(4 * k_ + i), weights, restore.NumElements(), &feature->bags);
  }

  Status Describe(OpKernelContext* ctx, const Integers& order, const std::vector<Feature>& features,
                  Joined* output) const {
    std::int64_t floats = 0;  // that a bag reads
    for (const int which : order) {
      Piece piece = {};
      piece.feature = which < k_ ? which : -1;
      piece.column = output->width;
      if (which < k_) {
        const Feature& feature = features[static_cast<std::size_t>(which)];
        piece.count = feature.bags.count;
        piece.width = feature.rows.source.dim;
        floats += piece.width * (1 + feature.bags.positions / std::max<std::int64_t>(1, piece.count));
      } else {
        const Tensor& other = ctx->input(5 * k_ + w_ + which - k_);
        if (other.dims() != 2) {
          return Refuse(Code::kInvalidArgument, type_string(), ": others ", which - k_, " have shape ",
                        other.shape().DebugString(), ", expected [bags, columns]");
        }
        piece.columns = other.flat<float>().data();
        piece.count = other.dim_size(0);
        piece.width = other.dim_size(1);
        floats += piece.width;
      }
      if (output->pieces.empty()) output->count = piece.count;
      if (piece.count != output->count) {
        return Refuse(Code::kInvalidArgument, type_string(), ": ", which < k_ ? "feature " : "others ",
                      which < k_ ? which : which - k_, " has ", piece.count, " bags, expected ", output->count,
                      " as what stands beside it");
      }
      output->width += piece.width;
      output->pieces.push_back(piece);
    }
    // Few enough that the columns of one feature are still in the cache when the next one writes beside them.
    output->block = std::max<std::int64_t>(1, 4 * BlockRows(floats));
    return Status::OK();
  }

  static void Write(const Joined& output, std::int64_t block, const std::vector<Feature>& features,
                    std::vector<FirstBad>* bad) {
    const std::int64_t begin = (block - output.first_block) * output.block;
    const std::int64_t end = std::min(output.count, begin + output.block);
    for (const Piece& piece : output.pieces) {
      float* const out = output.out + piece.column;
      if (piece.feature < 0) {
        for (std::int64_t i = begin; i < end; ++i) {
          CopyFloats(out + i * output.width, piece.columns + i * piece.width, piece.width);
        }
        continue;
      }
      const std::size_t number = static_cast<std::size_t>(piece.feature);
      (*bad)[number].Note(
          CombineBags(features[number].rows, features[number].bags, begin, end, out, output.width));
    }
  }

  int k_, w_, m_, o_;
  Integers tables_, weighted_, order_, pieces_;
  std::vector<Bags> known_;  // what attributes say of them
};

REGISTER_KERNEL_BUILDER(Name("AscCombineTables").Device(tensorflow::DEVICE_CPU), CombineTablesOp);

}  // namespace ascpipe
