// For each row of one table, AscLookupGrad sums the gradients of the table's lookups. AscSum sums the gradients of
// several tables.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bridge/bag_inputs.h"
#include "bridge/status.h"
#include "bridge/table_sums.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using tensorflow::shape_inference::InferenceContext;

// Sets the output shapes of table `i`, for an op with `n` tables. `slots` is the index of the input with the table's
// slots.
tensorflow::Status SetShapes(InferenceContext* c, int slots, int i, int n, tensorflow::int64 dim) {
  tensorflow::shape_inference::ShapeHandle vector;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(slots), 1, &vector));
  const auto valid = c->UnknownDim();
  c->set_output(i, c->Matrix(valid, c->MakeDim(dim)));
  c->set_output(n + i, c->Vector(valid));
  return ascpipe::OkStatus();
}

tensorflow::Status ShapesOfTable(InferenceContext* c) {
  tensorflow::int64 dim;
  TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
  return SetShapes(c, 0, 0, 1, dim);
}

tensorflow::Status ShapesOfTables(InferenceContext* c) {
  std::vector<tensorflow::int32> dims;
  int r;
  TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
  TF_RETURN_IF_ERROR(c->GetAttr("r", &r));
  const int n = c->num_outputs() / 2;
  if (static_cast<int>(dims.size()) != n) {
    return tensorflow::errors::InvalidArgument("AscSum: ", dims.size(), " dims for ", n, " tables");
  }
  for (int i = 0; i < n; ++i) TF_RETURN_IF_ERROR(SetShapes(c, r + i, i, n, dims[static_cast<std::size_t>(i)]));
  return ascpipe::OkStatus();
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
    .SetShapeFn(ShapesOfTable)
    .Doc(R"doc(
Sums the gradients of all features of a table per row, in canonical order.

The gradients of a row are added by feature from 0 to k - 1, then by position in the batch. With any number of threads,
the sum is bit-identical to unsorted_segment_sum over the concatenated gradients.

slots: int32[distinct ids], the input of AscLookup.
restore: int32, one tensor per feature, the inputs of AscLookup.
grads: float, the shape of restore_j followed by dim.
values: float[valid, dim], the sums of the distinct ids whose rows may be updated, in the order of slots. Ids with slot
  -1 and padding keys have no sum.
indices: int32[valid], the slots of these ids, distinct and not negative.
k: Number of features.
dim: Length of a row.
partial: True if `slots` also has ids of other features. Ids that no feature of this op has are then left out, because
  a row without a gradient is not trained.
)doc");

// AscSum is not stateful. AscSum has a different name for each set of fetches, and a session would keep a stateful
// kernel for each name.
REGISTER_OP("AscSum")
    .Input("rows: r * float")
    .Input("slots: n * int32")
    .Input("restore: k * int32")
    .Input("grads: g * float")
    .Input("splits: b * int64")
    .Input("weights: w * float")
    .Output("values: n * float")
    .Output("indices: n * int32")
    .Attr("r: int >= 0")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("g: int >= 1")
    .Attr("b: int >= 0")
    .Attr("w: int >= 0")
    .Attr("dims: list(int)")
    .Attr("partial: list(bool)")
    .Attr("rows_of: list(int)")
    .Attr("tables: list(int)")
    .Attr("sources: list(int)")
    .Attr("columns: list(int)")
    .Attr("bags: list(int)")
    .Attr("weighted: list(int)")
    .Attr("combiners: list(string)")
    .Attr("max_norms: list(float)")
    .SetShapeFn(ShapesOfTables)
    .Doc(R"doc(
AscLookupGrad for several tables, with gradients of ids, of combined bags, or of columns of a matrix.

The gradients of a row are added in the order of AscLookupGrad. Combined bags need no gradient tensor with a row per
id. If a row was clipped by max_norm, the gradient of the clipping is computed once per feature, from the sum over all
bags of the feature.

rows: float[any, dim], the rows of a table's slots; required with a max_norm.
slots: int32[distinct ids], one tensor per table; see AscLookup.
restore: int32, one tensor per feature; see AscLookup.
grads: float; see `columns`.
splits: int64[bags + 1], from AscBagSplits.
weights: float[ids].
values: float[valid, dim], one tensor per table; see AscLookupGrad.
indices: int32[valid], one tensor per table; see AscLookupGrad.
n: Number of tables.
k: Number of features.
dims: Length of a row of each table.
partial: For each table, the attribute `partial` of AscLookupGrad.
rows_of: For each table, the index of its tensor in `rows`; -1 for none.
tables: For each feature, the index of its table. Sums are computed in the order of the table's features.
sources: For each feature, the index of its gradient in `grads`.
columns: For each feature, the first column of its gradient in a matrix. A feature that is not combined then has a
  restore index of shape [batch] or [batch, side by side], and further rows of the matrix are ignored; for a combined
  feature, the matrix has one row per bag. -1 if the gradient is the whole tensor. Its shape is then the shape of the
  restore index followed by dim, or [bags, dim].
bags: For each feature, the index of its splits; -1 if its rows are not combined.
weighted: For each feature, the index of its weights; -1 for none.
combiners: For each feature, sum, mean or sqrtn; ignored if the feature is not combined.
max_norms: For each feature, the attribute `max_norm` of AscCombine.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Kernel of AscLookupGrad and AscSum. AscLookupGrad has one table, no bags, and one gradient tensor per feature.
class SumOp : public tensorflow::OpKernel {
 public:
  explicit SumOp(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    if (!construction->HasAttr("dims")) {
      OP_REQUIRES_OK(construction, ReadTable(construction));
    } else {
      OP_REQUIRES_OK(construction, ReadTables(construction));
      OP_REQUIRES_OK(construction, ReadCombiners(construction));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    std::vector<std::vector<BagGradient>> lookups(static_cast<std::size_t>(n_));
    for (int i = 0; i < k_; ++i) {
      BagGradient lookup;
      OP_REQUIRES_OK(ctx, Read(ctx, i, &lookup));
      lookups[static_cast<std::size_t>(At(tables_, i))].push_back(lookup);
    }
    std::vector<TableSums> sums(static_cast<std::size_t>(n_));
    for (int i = 0; i < n_; ++i) {
      const std::size_t table = static_cast<std::size_t>(i);
      const Tensor* const rows = At(rows_of_, i) < 0 ? nullptr : &ctx->input(At(rows_of_, i));
      OP_REQUIRES_OK(ctx, sums[table].Begin(type_string(), ctx->input(r_ + i), rows, At(dims_, i), partial_[table],
                                            std::move(lookups[table])));
    }
    OP_REQUIRES_OK(ctx, SumTables(ctx, &sums));
  }

 private:
  using Integers = std::vector<tensorflow::int32>;

  static tensorflow::int32 At(const Integers& numbers, int place) { return numbers[static_cast<std::size_t>(place)]; }

  Status ReadTable(OpKernelConstruction* construction) {
    const std::size_t k = static_cast<std::size_t>(k_);
    dims_.resize(1);
    bool partial;
    TF_RETURN_IF_ERROR(construction->GetAttr("dim", &dims_[0]));
    TF_RETURN_IF_ERROR(construction->GetAttr("partial", &partial));
    g_ = k_;
    partial_ = {partial};
    rows_of_ = {-1};
    tables_.assign(k, 0);
    for (int i = 0; i < k_; ++i) sources_.push_back(i);
    columns_.assign(k, -1);
    bags_ = weighted_ = columns_;
    known_.resize(k);
    return OkStatus();
  }

  Status ReadTables(OpKernelConstruction* construction) {
    TF_RETURN_IF_ERROR(construction->GetAttr("r", &r_));
    TF_RETURN_IF_ERROR(construction->GetAttr("n", &n_));
    TF_RETURN_IF_ERROR(construction->GetAttr("g", &g_));
    TF_RETURN_IF_ERROR(construction->GetAttr("b", &b_));
    TF_RETURN_IF_ERROR(construction->GetAttr("w", &w_));
    TF_RETURN_IF_ERROR(construction->GetAttr("dims", &dims_));
    TF_RETURN_IF_ERROR(construction->GetAttr("partial", &partial_));
    TF_RETURN_IF_ERROR(construction->GetAttr("rows_of", &rows_of_));
    TF_RETURN_IF_ERROR(construction->GetAttr("tables", &tables_));
    TF_RETURN_IF_ERROR(construction->GetAttr("sources", &sources_));
    TF_RETURN_IF_ERROR(construction->GetAttr("columns", &columns_));
    const std::size_t n = static_cast<std::size_t>(n_), k = static_cast<std::size_t>(k_);
    const auto in = [](const Integers& numbers, int least, int end) {
      return std::all_of(numbers.begin(), numbers.end(), [=](int number) { return number >= least && number < end; });
    };
    if (dims_.size() != n || partial_.size() != n || rows_of_.size() != n || tables_.size() != k ||
        sources_.size() != k || columns_.size() != k || !in(rows_of_, -1, r_) || !in(tables_, 0, n_) ||
        !in(sources_, 0, g_) || !in(columns_, -1, 1 << 30) || !in(dims_, 1, 1 << 30)) {
      return Refuse(Code::kInvalidArgument, type_string(), ": dims, partial and rows_of must have ", n_,
                    " values, tables, sources and columns ", k_, ", dims be at least 1, and the others, all of them ",
                    "numbers of inputs or columns, be in range");
    }
    return OkStatus();
  }

  Status ReadCombiners(OpKernelConstruction* construction) {
    std::vector<std::string> combiners;
    std::vector<float> max_norms;
    TF_RETURN_IF_ERROR(construction->GetAttr("bags", &bags_));
    TF_RETURN_IF_ERROR(construction->GetAttr("weighted", &weighted_));
    TF_RETURN_IF_ERROR(construction->GetAttr("combiners", &combiners));
    TF_RETURN_IF_ERROR(construction->GetAttr("max_norms", &max_norms));
    const std::size_t k = static_cast<std::size_t>(k_);
    if (bags_.size() != k || weighted_.size() != k || combiners.size() != k || max_norms.size() != k) {
      return Refuse(Code::kInvalidArgument, type_string(), ": attributes of another number of features than ", k_);
    }
    for (std::size_t i = 0; i < k; ++i) {
      const bool has_rows = At(rows_of_, tables_[i]) >= 0;
      if (bags_[i] >= b_ || weighted_[i] >= w_ || (max_norms[i] != 0 && !has_rows)) {
        return Refuse(Code::kInvalidArgument, type_string(), ": feature ", i, " has splits ", bags_[i], " of ", b_,
                      ", weights ", weighted_[i], " of ", w_, " and max_norm ", max_norms[i],
                      has_rows ? " with" : " without", " rows");
      }
      Bags bags = {};
      if (bags_[i] >= 0) {
        TF_RETURN_IF_ERROR(ReadCombiner(combiners[i], &bags.combiner));
        bags.max_norm = max_norms[i];
      }
      known_.push_back(bags);
    }
    return OkStatus();
  }

  Status Read(OpKernelContext* ctx, int feature, BagGradient* lookup) const {
    const int first_grads = r_ + n_ + k_, first_splits = first_grads + g_;
    const Tensor &restore = ctx->input(r_ + n_ + feature), &grads = ctx->input(first_grads + At(sources_, feature));
    const int bags = At(bags_, feature), weighted = At(weighted_, feature), column = At(columns_, feature);
    const std::int64_t dim = At(dims_, At(tables_, feature));
    *lookup = {restore.flat<std::int32_t>().data(),
               grads.flat<float>().data() + std::max(0, column),
               dim,
               restore.NumElements(),
               bags >= 0,
               known_[static_cast<std::size_t>(feature)]};
    TensorShape rows = restore.shape();
    if (lookup->has_bags) {
      TF_RETURN_IF_ERROR(ReadBags(type_string(), ctx->input(first_splits + bags),
                                  weighted < 0 ? nullptr : &ctx->input(first_splits + b_ + weighted), lookup->n,
                                  &lookup->bags));
      rows = TensorShape({lookup->bags.count});
    }
    if (column >= 0) return ReadColumns(grads, rows, feature, lookup);
    rows.AddDim(dim);
    if (grads.shape() == rows) return OkStatus();
    return Refuse(Code::kInvalidArgument, type_string(), ": gradient ", At(sources_, feature), " has shape ",
                  grads.shape().DebugString(), ", expected ", rows.DebugString());
  }

  // Makes `lookup` read the gradient of a feature from columns of the matrix `grads`. `rows` is the shape of the
  // feature's rows without the last dimension.
  Status ReadColumns(const Tensor& grads, const TensorShape& rows, int feature, BagGradient* lookup) const {
    const bool has_rank = rows.dims() == 1 || rows.dims() == 2;
    const std::int64_t batch = has_rank ? rows.dim_size(0) : -1, dim = At(dims_, At(tables_, feature));
    const std::int64_t side_by_side = rows.dims() == 2 ? rows.dim_size(1) : 1;
    const std::int64_t column = At(columns_, feature), end = column + side_by_side * dim;
    if (has_rank && grads.dims() == 2 && end <= grads.dim_size(1) &&
        (lookup->has_bags ? grads.dim_size(0) == batch : grads.dim_size(0) >= batch)) {
      lookup->stride = grads.dim_size(1);
      lookup->side_by_side = std::max<std::int64_t>(1, side_by_side);
      return OkStatus();
    }
    if (lookup->has_bags) {
      return Refuse(Code::kInvalidArgument, type_string(), ": gradient ", At(sources_, feature), " has shape ",
                    grads.shape().DebugString(), ", expected [", batch, ",", dim, "] from column ", column);
    }
    return Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grads.shape().DebugString(),
                  ", expected columns ", column, " to ", end, " for feature ", feature, ", whose ids have shape ",
                  rows.DebugString());
  }

  int r_ = 0, n_ = 1, k_, g_, b_ = 0, w_ = 0;
  Integers dims_, rows_of_;  // by table
  std::vector<bool> partial_;
  Integers tables_, sources_, columns_, bags_, weighted_;  // by feature
  std::vector<Bags> known_;                                // by feature: bags as described by attributes
};

REGISTER_KERNEL_BUILDER(Name("AscLookupGrad").Device(tensorflow::DEVICE_CPU), SumOp);
REGISTER_KERNEL_BUILDER(Name("AscSum").Device(tensorflow::DEVICE_CPU), SumOp);

}  // namespace ascpipe
