// AscLookup and AscRestoreRows: the rows of all features of one table, from the table or from a copy of the batch's.
#include "bridge/lookup_source.h"
#include "bridge/parallel.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

tensorflow::Status ShapesOfLookup(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle rows, slots, fallback;
  const int k = c->num_outputs();
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &rows));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &slots));
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(2 + k), 1, &fallback));
  const auto dim = c->Vector(c->Dim(rows, 1));
  for (int i = 0; i < k; ++i) {
    tensorflow::shape_inference::ShapeHandle out;
    TF_RETURN_IF_ERROR(c->Concatenate(c->input(2 + i), dim, &out));
    c->set_output(i, out);
  }
  return tensorflow::Status::OK();
}

}  // namespace

REGISTER_OP("AscLookup")
    .Input("rows: Ref(float)")
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("default_row: float")
    .Output("embeddings: k * float")
    .Attr("k: int >= 1")
    .Attr("table: int = -1")
    .SetShapeFn(ShapesOfLookup)
    .Doc(R"doc(
Looks up the rows of all features of one table: embeddings_j[...] = rows[slots[restore_j[...]]].

rows: float[device rows, dim], the table variable.
slots: int32[distinct ids] of AscNextPlan, each in [0, device rows), of a padding key with 2^30 added, or -1 for
  the default row; in evaluation also -2 - h for home row h of the table.
restore: int32 of any shape, one per feature, each value in [0, distinct ids), or -1 for the default row where a
  position has no id.
default_row: float[dim], or a float scalar for all columns.
embeddings: float, the shape of restore_j followed by dim.
k: number of features.
table: number of the table, needed where slots may name home rows; they are read where they lie, or in the rows of a
  checkpoint that the session reads instead.
)doc");

REGISTER_OP("AscRestoreRows")
    .Input("local: float")
    .Input("places: int32")
    .Input("restore: k * int32")
    .Input("default_row: float")
    .Output("embeddings: k * float")
    .Attr("k: int >= 1")
    .SetShapeFn(ShapesOfLookup)
    .Doc(R"doc(
AscLookup over the rows of one batch: embeddings_j[...] = local[places[restore_j[...]]].

local: float[distinct ids, dim] of AscLocalRows.
places: int32[distinct ids] of AscLocalRows: a row of local, of a padding key with 2^30 added, or -1 for the default
  row.
restore: int32 of any shape, one per feature, each value in [0, distinct ids), or -1 for the default row where a
  position has no id.
default_row: float[dim], or a float scalar for all columns.
embeddings: float, the shape of restore_j followed by dim.
k: number of features.
)doc");

namespace ascpipe {

// Kernel of both ops: AscRestoreRows has no table, so none of its slots may name a home row.
class LookupOp : public tensorflow::OpKernel {
 public:
  explicit LookupOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    if (construction->HasAttr("table")) OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    LookupSource source;
    OP_REQUIRES_OK(ctx, source.Read(ctx, 0, 1, table_));
    OP_REQUIRES_OK(ctx, source.ReadDefault(ctx, 2 + k_));
    for (int i = 0; i < k_; ++i) OP_REQUIRES_OK(ctx, LookUp(ctx, source, i));
  }

 private:
  tensorflow::Status LookUp(tensorflow::OpKernelContext* ctx, const LookupSource& source, int which) const {
    const tensorflow::Tensor& restore = ctx->input(2 + which);
    const std::int64_t dim = source.gather().dim;
    tensorflow::TensorShape shape = restore.shape();
    shape.AddDim(dim);
    tensorflow::Tensor* embeddings;
    TF_RETURN_IF_ERROR(ctx->allocate_output(which, shape, &embeddings));
    const Gathered gathered = {restore.flat<std::int32_t>().data(), restore.NumElements(),
                               embeddings->flat<float>().data(), dim};
    FirstBad bad;
    ShareBlocks(ctx, gathered.n, 4 * BlockRows(dim), [&](std::int64_t begin, std::int64_t end) {
      bad.Note(GatherRows(source.gather(), gathered, begin, end));
    });
    if (bad.none()) return tensorflow::Status::OK();
    return source.BadRestore(type_string(), gathered, bad.at(), which);
  }

  int k_;
  int table_ = -1;
};

REGISTER_KERNEL_BUILDER(Name("AscLookup").Device(tensorflow::DEVICE_CPU), LookupOp);
REGISTER_KERNEL_BUILDER(Name("AscRestoreRows").Device(tensorflow::DEVICE_CPU), LookupOp);

}  // namespace ascpipe
