// AscCombineGrad: AscLookupGrad of lookups whose rows are combined to one for each bag.  AscCombineTablesGrad: the same of
// several tables.
#include <algorithm>
#include <string>
#include <utility>
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

REGISTER_OP("AscCombineTablesGrad")
    .Input("rows: r * float")
    .Input("slots: n * int32")
    .Input("restore: k * int32")
    .Input("grads: g * float")
    .Input("splits: m * int64")
    .Input("weights: w * float")
    .Output("values: n * float")
    .Output("indices: n * int32")
    .Attr("r: int >= 0")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("g: int >= 1")
    .Attr("m: int >= 0")
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
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      std::vector<tensorflow::int32> dims;
      TF_RETURN_IF_ERROR(c->GetAttr("dims", &dims));
      const int n = c->num_outputs() / 2;
      if (static_cast<int>(dims.size()) != n) {
        return tensorflow::errors::InvalidArgument("AscCombineTablesGrad: ", dims.size(), " dims for ", n, " tables");
      }
      for (int i = 0; i < n; ++i) {
        const auto valid = c->UnknownDim();
        c->set_output(i, c->Matrix(valid, c->MakeDim(dims[static_cast<std::size_t>(i)])));
        c->set_output(n + i, c->Vector(valid));
      }
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
AscCombineGrad of several tables, in one pass; gradients of bags may be columns of one tensor.

rows, slots, restore, splits, weights: as of AscCombineGrad; slots for each table, restore for each feature.
grads: float, of features whose rows are combined [bags, any], else as of AscCombineGrad.
values, indices: as of AscCombineGrad, for each table.
dims, partial: of each table.
rows_of: of each table, which of `rows` it has; -1: none.
tables: of each feature, which table it is of.
sources: of each feature, which of `grads` it has.
columns: of each feature, the column where its gradient begins.
bags, weighted, combiners, max_norms: as of AscCombineGrad.
)doc");

namespace ascpipe {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

using Integers = std::vector<tensorflow::int32>;

constexpr std::int64_t kMostParts = 8;  // of a table; each reads all positions
constexpr std::int64_t kLeastShared = 4096;

bool Clips(const BagGradient& lookup) { return lookup.has_bags && lookup.bags.max_norm != 0; }

// The slots of ids that these features have; of others -1.
std::vector<std::int32_t> OwnSlots(const std::int32_t* slots, std::int64_t count,
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

// The sums of one table.
class BagSums {
 public:
  // `rows` may be null where no feature has a max_norm.  The inputs stay the caller's.
  Status Begin(OpKernelContext* ctx, const Tensor& slots, const Tensor* rows, std::int64_t dim, bool partial,
               std::vector<BagGradient> lookups) {
    if (slots.dims() != 1) {
      return Refuse(Code::kInvalidArgument, ctx->op_kernel().type_string(), ": slots have shape ",
                    slots.shape().DebugString(), ", expected a vector");
    }
    slots_ = slots.flat<std::int32_t>().data();
    count_ = slots.NumElements();
    dim_ = dim;
    lookups_ = std::move(lookups);
    bad_ = std::vector<FirstBad>(lookups_.size());
    if (partial) {
      own_ = OwnSlots(slots_, count_, lookups_);
      slots_ = own_.data();
    }
    rows_ = rows;
    for (const BagGradient& lookup : lookups_) positions_ += lookup.n;
    return Status::OK();
  }

  std::int64_t positions() const { return positions_; }

  // Makes the outputs.
  Status Allocate(OpKernelContext* ctx, int values, int indices) {
    valid_ = std::count_if(slots_, slots_ + count_, IsTrained);
    places_.resize(static_cast<std::size_t>(count_));
    Tensor* made;
    TF_RETURN_IF_ERROR(ctx->allocate_output(values, TensorShape({valid_, dim_}), &made));
    sums_ = made->flat<float>().data();
    TF_RETURN_IF_ERROR(ctx->allocate_output(indices, TensorShape({valid_}), &made));
    indices_ = made->flat<std::int32_t>().data();
    NumberValidSlots(slots_, count_, places_.data(), indices_);
    if (rows_ != nullptr) TF_RETURN_IF_ERROR(RequireRows(ctx));
    if (!std::any_of(lookups_.begin(), lookups_.end(), Clips)) return Status::OK();
    return ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({valid_, dim_}), &clipped_);
  }

  // For every part, by any threads.
  void Add(const SumPart& part) {
    ZeroPart(part, valid_, dim_, sums_);
    for (std::size_t i = 0; i < lookups_.size(); ++i) {
      const bool clips = Clips(lookups_[i]);
      float* const into = clips ? clipped_.flat<float>().data() : sums_;
      if (clips) ZeroPart(part, valid_, dim_, into);
      bad_[i].Note(AddBagGradients(places_.data(), count_, lookups_[i], dim_, part, into));
      if (!clips) continue;
      AddClipped(rows_->flat<float>().data(), indices_, lookups_[i].bags.max_norm, into, valid_, dim_, part, sums_);
    }
  }

  Status Outcome(const std::string& op) const {
    for (std::size_t i = 0; i < lookups_.size(); ++i) {
      if (bad_[i].none()) continue;
      return Refuse(Code::kInvalidArgument, op, ": restore index ", lookups_[i].restore[bad_[i].at()], " at position ",
                    bad_[i].at(), " of lookup ", i, " is outside [0, ", count_, ") and not -1");
    }
    return Status::OK();
  }

 private:
  // Whether all indices are of the rows.
  Status RequireRows(OpKernelContext* ctx) const {
    const std::int64_t count = rows_->dims() == 2 && rows_->dim_size(1) == dim_ ? rows_->dim_size(0) : 0;
    for (std::int64_t i = 0; i < valid_; ++i) {
      if (indices_[i] < count) continue;
      return Refuse(Code::kInvalidArgument, ctx->op_kernel().type_string(), ": slot ", indices_[i],
                    " is not of rows of shape ", rows_->shape().DebugString(), " with dim ", dim_);
    }
    return Status::OK();
  }

  const std::int32_t* slots_ = nullptr;
  std::int64_t count_ = 0, dim_ = 0, valid_ = 0, positions_ = 0;
  std::vector<BagGradient> lookups_;
  std::vector<FirstBad> bad_;
  std::vector<std::int32_t> own_, places_;
  const Tensor* rows_ = nullptr;
  Tensor clipped_;
  float* sums_ = nullptr;
  std::int32_t* indices_ = nullptr;
};

}  // namespace

// Kernel of both ops: AscCombineGrad has one table, and a gradient for each feature.
class CombineGradOp : public tensorflow::OpKernel {
 public:
  explicit CombineGradOp(OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("r", &r_));
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("m", &m_));
    OP_REQUIRES_OK(construction, construction->GetAttr("w", &w_));
    OP_REQUIRES_OK(construction, construction->GetAttr("bags", &bags_));
    OP_REQUIRES_OK(construction, construction->GetAttr("weighted", &weighted_));
    OP_REQUIRES_OK(construction, construction->HasAttr("tables") ? ReadTables(construction) : AssumeOne(construction));
    OP_REQUIRES_OK(construction, ReadCombiners(construction));
  }

  void Compute(OpKernelContext* ctx) override {
    const std::size_t n = static_cast<std::size_t>(n_);
    std::vector<std::vector<BagGradient>> lookups(n);
    for (int i = 0; i < k_; ++i) {
      BagGradient lookup;
      OP_REQUIRES_OK(ctx, Read(ctx, i, &lookup));
      lookups[static_cast<std::size_t>(At(tables_, i))].push_back(lookup);
    }
    std::vector<BagSums> sums(n);
    std::int64_t positions = 0;
    for (int i = 0; i < n_; ++i) {
      const std::size_t table = static_cast<std::size_t>(i);
      const Tensor* const rows = At(rows_of_, i) < 0 ? nullptr : &ctx->input(At(rows_of_, i));
      OP_REQUIRES_OK(ctx, sums[table].Begin(ctx, ctx->input(r_ + i), rows, At(dims_, i), partial_[table],
                                            std::move(lookups[table])));
      OP_REQUIRES_OK(ctx, sums[table].Allocate(ctx, i, n_ + i));
      positions += sums[table].positions();
    }
    // A table in as many parts as its share of the work asks for.
    const std::int64_t threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
    std::vector<std::pair<std::size_t, SumPart>> parts;
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t own = sums[i].positions(), share = own < kLeastShared ? 1 : 2 * threads * own / positions;
      const std::int64_t count = std::max<std::int64_t>(1, std::min({share, threads, kMostParts}));
      for (std::int64_t number = 0; number < count; ++number) parts.push_back({i, {number, count}});
    }
    ShareBlocks(ctx, static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto& part = parts[static_cast<std::size_t>(i)];
        sums[part.first].Add(part.second);
      }
    });
    for (const BagSums& each : sums) OP_REQUIRES_OK(ctx, each.Outcome(type_string()));
  }

 private:
  static tensorflow::int32 At(const Integers& numbers, int place) { return numbers[static_cast<std::size_t>(place)]; }

  Status AssumeOne(OpKernelConstruction* construction) {
    int dim;
    bool partial;
    TF_RETURN_IF_ERROR(construction->GetAttr("dim", &dim));
    TF_RETURN_IF_ERROR(construction->GetAttr("partial", &partial));
    n_ = 1;
    g_ = k_;
    dims_ = {dim};
    partial_ = {partial};
    rows_of_ = {r_ > 0 ? 0 : -1};
    tables_.assign(static_cast<std::size_t>(k_), 0);
    columns_ = tables_;
    for (int i = 0; i < k_; ++i) sources_.push_back(i);
    return Status::OK();
  }

  Status ReadTables(OpKernelConstruction* construction) {
    TF_RETURN_IF_ERROR(construction->GetAttr("n", &n_));
    TF_RETURN_IF_ERROR(construction->GetAttr("g", &g_));
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
        !in(sources_, 0, g_) || !in(columns_, 0, 1 << 30) || !in(dims_, 1, 1 << 30)) {
      return Refuse(Code::kInvalidArgument, type_string(), ": dims, partial and rows_of must have ", n_,
                    " values, tables, sources and columns ", k_, ", all of them numbers of inputs, dims be at least 1");
    }
    return Status::OK();
  }

  Status ReadCombiners(OpKernelConstruction* construction) {
    std::vector<std::string> combiners;
    std::vector<float> max_norms;
    TF_RETURN_IF_ERROR(construction->GetAttr("combiners", &combiners));
    TF_RETURN_IF_ERROR(construction->GetAttr("max_norms", &max_norms));
    const std::size_t k = static_cast<std::size_t>(k_);
    if (bags_.size() != k || weighted_.size() != k || combiners.size() != k || max_norms.size() != k) {
      return Refuse(Code::kInvalidArgument, type_string(), ": attributes of another number of features than ", k_);
    }
    for (std::size_t i = 0; i < k; ++i) {
      const bool has_rows = rows_of_[static_cast<std::size_t>(tables_[i])] >= 0;
      if (bags_[i] >= m_ || weighted_[i] >= w_ || (max_norms[i] != 0 && !has_rows)) {
        return Refuse(Code::kInvalidArgument, type_string(), ": feature ", i, " has splits ", bags_[i], " of ", m_,
                      ", weights ", weighted_[i], " of ", w_, " and max_norm ", max_norms[i], has_rows ? " with" : " without",
                      " rows");
      }
      Bags bags = {};
      if (bags_[i] >= 0) {
        TF_RETURN_IF_ERROR(ReadCombiner(combiners[i], &bags.combiner));
        bags.max_norm = max_norms[i];
      }
      known_.push_back(bags);
    }
    return Status::OK();
  }

  Status Read(OpKernelContext* ctx, int feature, BagGradient* lookup) const {
    const int restores = r_ + n_, first_grads = restores + k_, first_splits = first_grads + g_;
    const Tensor &restore = ctx->input(restores + feature), &grads = ctx->input(first_grads + At(sources_, feature));
    const int bags = At(bags_, feature), weighted = At(weighted_, feature), column = At(columns_, feature);
    const std::int64_t dim = At(dims_, At(tables_, feature));
    *lookup = {restore.flat<std::int32_t>().data(), grads.flat<float>().data() + column, dim, restore.NumElements(),
               bags >= 0, known_[static_cast<std::size_t>(feature)]};
    TensorShape expected = restore.shape();
    if (lookup->has_bags) {
      TF_RETURN_IF_ERROR(ReadBags(type_string(), ctx->input(first_splits + bags),
                                  weighted < 0 ? nullptr : &ctx->input(first_splits + m_ + weighted), lookup->n,
                                  &lookup->bags));
      if (grads.dims() == 2 && grads.dim_size(0) == lookup->bags.count && column + dim <= grads.dim_size(1)) {
        lookup->stride = grads.dim_size(1);
        if (!HasOneEach() || lookup->stride == dim) return Status::OK();
      }
      expected = TensorShape({lookup->bags.count});
    }
    expected.AddDim(dim);
    if (grads.shape() == expected && column == 0) return Status::OK();
    return Refuse(Code::kInvalidArgument, type_string(), ": gradient ", At(sources_, feature), " has shape ",
                  grads.shape().DebugString(), ", expected ", expected.DebugString(), " from column ", column);
  }

  bool HasOneEach() const { return type_string() == "AscCombineGrad"; }

  int r_, n_, k_, g_, m_, w_;
  Integers dims_, rows_of_;            // by table
  std::vector<bool> partial_;
  Integers tables_, sources_, columns_, bags_, weighted_;  // by feature
  std::vector<Bags> known_;            // what attributes say of them
};

REGISTER_KERNEL_BUILDER(Name("AscCombineGrad").Device(tensorflow::DEVICE_CPU), CombineGradOp);
REGISTER_KERNEL_BUILDER(Name("AscCombineTablesGrad").Device(tensorflow::DEVICE_CPU), CombineGradOp);

}  // namespace ascpipe
