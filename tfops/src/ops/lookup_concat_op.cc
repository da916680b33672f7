// AscLookupConcat, AscRestoreRowsConcat: lookups of several tables and other columns, side by side in one tensor.
#include <algorithm>
#include <deque>
#include <vector>

#include "bridge/lookup_source.h"
#include "bridge/parallel.h"
#include "core/row_copy.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

tensorflow::Status ShapeOfJoined(tensorflow::shape_inference::InferenceContext* c) {
  int n, k, m;
  std::vector<tensorflow::int32> sources;
  TF_RETURN_IF_ERROR(c->GetAttr("n", &n));
  TF_RETURN_IF_ERROR(c->GetAttr("k", &k));
  TF_RETURN_IF_ERROR(c->GetAttr("m", &m));
  TF_RETURN_IF_ERROR(c->GetAttr("sources", &sources));
  if (static_cast<int>(sources.size()) != k) {
    return tensorflow::errors::InvalidArgument("AscLookupConcat: ", sources.size(), " sources for ", k, " lookups");
  }
  tensorflow::shape_inference::ShapeHandle shape;
  auto batch = c->UnknownDim();
  auto width = c->MakeDim(0);
  for (int i = 0; i < k; ++i) {
    if (sources[i] < 0 || sources[i] >= n) {
      return tensorflow::errors::InvalidArgument("AscLookupConcat: source ", sources[i], " is outside [0, ", n, ")");
    }
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(2 * n + i), 1, &shape));
    TF_RETURN_IF_ERROR(c->WithRankAtMost(shape, 2, &shape));
    TF_RETURN_IF_ERROR(c->Merge(batch, c->Dim(shape, 0), &batch));
    const auto side_by_side = !c->RankKnown(shape) ? c->UnknownDim()
                              : c->Rank(shape) == 2 ? c->Dim(shape, 1) : c->MakeDim(1);
    TF_RETURN_IF_ERROR(c->WithRank(c->input(sources[i]), 2, &shape));
    auto columns = c->UnknownDim();
    TF_RETURN_IF_ERROR(c->Multiply(side_by_side, c->Dim(shape, 1), &columns));
    TF_RETURN_IF_ERROR(c->Add(width, columns, &width));
  }
  for (int i = 0; i < m; ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(2 * n + k + i), 2, &shape));
    TF_RETURN_IF_ERROR(c->Merge(batch, c->Dim(shape, 0), &batch));
    TF_RETURN_IF_ERROR(c->Add(width, c->Dim(shape, 1), &width));
  }
  c->set_output(0, c->Matrix(batch, width));
  return tensorflow::Status::OK();
}

}  // namespace

REGISTER_OP("AscLookupConcat")
    .Input("rows: Ref(n * float)")
    .Input("slots: n * int32")
    .Input("restore: k * int32")
    .Input("others: m * float")
    .Output("joined: float")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("m: int >= 0")
    .Attr("tables: list(int)")
    .Attr("sources: list(int)")
    .Attr("order: list(int)")
    .SetShapeFn(ShapeOfJoined)
    .Doc(R"doc(
Looks up rows and writes them side by side with other columns: what AscLookup and a concat of columns give, in one pass.

rows: float[device rows, dim], the table variables.
slots: int32[distinct ids] of AscNextPlan, one for each table, as AscLookup takes them; the default row is zeros.
restore: int32[batch] or int32[batch, side by side], one per lookup.
others: float[batch, columns], copied.
joined: float[batch, width].
n: number of tables.
k: number of lookups.
m: number of other tensors.
tables: number of each table where its slots may name home rows, else -1.
sources: of each lookup, which of `rows` it reads.
order: what stands in which place: i below k for lookup i, k + i for others i; each once.
)doc");

REGISTER_OP("AscRestoreRowsConcat")
    .Input("local: n * float")
    .Input("places: n * int32")
    .Input("restore: k * int32")
    .Input("others: m * float")
    .Output("joined: float")
    .Attr("n: int >= 1")
    .Attr("k: int >= 1")
    .Attr("m: int >= 0")
    .Attr("sources: list(int)")
    .Attr("order: list(int)")
    .SetShapeFn(ShapeOfJoined)
    .Doc(R"doc(
AscLookupConcat over the rows of one batch: what AscRestoreRows and a concat of columns give, in one pass.

local: float[distinct ids, dim] of AscForward, one for each table.
places: int32[distinct ids] of AscForward: a row of local, or -1 for zeros.
restore: int32[batch] or int32[batch, side by side], one per lookup.
others: float[batch, columns], copied.
joined: float[batch, width].
n: number of tables.
k: number of lookups.
m: number of other tensors.
sources: of each lookup, which of `local` it reads.
order: as of AscLookupConcat.
)doc");

namespace ascpipe {

// Kernel of both ops: AscRestoreRowsConcat has no tables, so none of its slots may name a home row.
class LookupConcatOp : public tensorflow::OpKernel {
 public:
  explicit LookupConcatOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("n", &n_));
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    OP_REQUIRES_OK(construction, construction->GetAttr("m", &m_));
    if (construction->HasAttr("tables")) {
      OP_REQUIRES_OK(construction, construction->GetAttr("tables", &tables_));
    } else {
      tables_.assign(static_cast<std::size_t>(n_), -1);
    }
    OP_REQUIRES_OK(construction, construction->GetAttr("sources", &sources_));
    OP_REQUIRES_OK(construction, construction->GetAttr("order", &order_));
    std::vector<tensorflow::int32> sorted = order_;
    std::sort(sorted.begin(), sorted.end());
    bool fits = static_cast<int>(tables_.size()) == n_ && static_cast<int>(sorted.size()) == k_ + m_;
    for (int i = 0; fits && i < k_ + m_; ++i) fits = sorted[i] == i;
    OP_REQUIRES(construction, fits,
                Refuse(Code::kInvalidArgument, type_string(), ": tables must have ", n_,
                       " numbers, order each of 0 to ", k_ + m_ - 1, " once"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::deque<LookupSource> sources(n_);
    for (int i = 0; i < n_; ++i) OP_REQUIRES_OK(ctx, sources[i].Read(ctx, i, n_ + i, tables_[i]));
    const tensorflow::Tensor& first = ctx->input(2 * n_);
    const std::int64_t batch = first.dims() == 0 ? -1 : first.dim_size(0);
    std::vector<std::int64_t> columns(static_cast<std::size_t>(k_ + m_));  // where each begins
    std::int64_t width = 0;
    for (const tensorflow::int32 which : order_) {
      const tensorflow::Tensor& piece = ctx->input(2 * n_ + which);
      const bool has_rank = piece.dims() == 2 || (piece.dims() == 1 && which < k_);
      OP_REQUIRES(ctx, has_rank && piece.dim_size(0) == batch,
                  Refuse(Code::kInvalidArgument, type_string(), ": ", which < k_ ? "restore " : "others ",
                         which < k_ ? which : which - k_, " has shape ", piece.shape().DebugString(), ", expected [", batch,
                         which < k_ ? "] or one more dimension" : ", columns]"));
      columns[which] = width;
      width += (piece.dims() == 2 ? piece.dim_size(1) : 1) * (which < k_ ? sources[sources_[which]].gather().dim : 1);
    }
    tensorflow::Tensor* joined;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({batch, width}), &joined));
    float* const out = joined->flat<float>().data();
    std::vector<Gathered> lookups;
    for (int i = 0; i < k_; ++i) {
      const tensorflow::Tensor& restore = ctx->input(2 * n_ + i);
      lookups.push_back({restore.flat<std::int32_t>().data(), restore.NumElements(), out + columns[i], width,
                         restore.dims() == 2 ? std::max<std::int64_t>(1, restore.dim_size(1)) : 1});
    }
    std::vector<FirstBad> bad(static_cast<std::size_t>(k_));
    // Blocks of rows small enough that the columns of one lookup are still in the cache when the next one writes beside
    // them.
    ShareBlocks(ctx, batch, 4 * BlockRows(width), [&](std::int64_t begin, std::int64_t end) {
      for (int i = 0; i < k_; ++i) {
        const std::int64_t ids = batch == 0 ? 0 : lookups[i].n / batch;  // of a row
        bad[i].Note(GatherRows(sources[sources_[i]].gather(), lookups[i], begin * ids, end * ids));
      }
      for (int i = 0; i < m_; ++i) Copy(ctx->input(2 * n_ + k_ + i), begin, end, out + columns[k_ + i], width);
    });
    for (int i = 0; i < k_; ++i) {
      OP_REQUIRES(ctx, bad[i].none(), sources[sources_[i]].BadRestore(type_string(), lookups[i], bad[i].at(), i));
    }
  }

 private:
  static void Copy(const tensorflow::Tensor& from, std::int64_t begin, std::int64_t end, float* out, std::int64_t width) {
    const std::int64_t columns = from.dim_size(1);
    const float* const rows = from.flat<float>().data();
    for (std::int64_t i = begin; i < end; ++i) CopyFloats(out + i * width, rows + i * columns, columns);
  }

  int n_, k_, m_;
  std::vector<tensorflow::int32> tables_, sources_, order_;
};

REGISTER_KERNEL_BUILDER(Name("AscLookupConcat").Device(tensorflow::DEVICE_CPU), LookupConcatOp);
REGISTER_KERNEL_BUILDER(Name("AscRestoreRowsConcat").Device(tensorflow::DEVICE_CPU), LookupConcatOp);

}  // namespace ascpipe
