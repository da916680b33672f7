// AscLookup and AscRestoreRows: the rows of all features of one table, from the table or from a copy of the batch's.
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <vector>

#include "bridge/default_row.h"
#include "bridge/parallel.h"
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "core/gather.h"
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
table: number of the table, needed where slots may name home rows; they are read where they lie.
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

// Of both ops: AscRestoreRows has no table, so none of its slots may name a home row.
class LookupOp : public tensorflow::OpKernel {
 public:
  explicit LookupOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("k", &k_));
    if (construction->HasAttr("table")) OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    // Not under the variable's mutex: the plan op, whose slots this op needs, has moved the rows before, and
    // the update comes after the gradients; so TensorFlow's own Gather does it too.
    const tensorflow::Tensor rows =
        tensorflow::IsRefType(ctx->input_dtype(0)) ? ctx->mutable_input(0, false) : ctx->input(0);
    const tensorflow::Tensor& slots = ctx->input(1);
    OP_REQUIRES(ctx, rows.dims() == 2, Refuse(Code::kInvalidArgument, type_string(), ": rows have shape ",
                                              rows.shape().DebugString(), ", expected [device rows, dim]"));
    const std::int64_t dim = rows.dim_size(1);
    OP_REQUIRES(ctx, slots.dims() == 1, Refuse(Code::kInvalidArgument, type_string(), ": slots have shape ",
                                               slots.shape().DebugString(), ", expected a vector"));
    std::vector<float> fallback;
    OP_REQUIRES_OK(ctx, ReadDefaultRow(ctx, 2 + k_, dim, &fallback));
    GatherSource source = {rows.flat<float>().data(), rows.dim_size(0),     dim,
                           slots.flat<std::int32_t>().data(), slots.NumElements(), fallback.data()};
    std::shared_ptr<Pipeline> pipeline;  // its mapping stays while rows are read from it
    std::int64_t bad = FirstBadSlot(source);
    if (bad >= 0 && source.slots[bad] <= layout::kSlotHome && table_ >= 0) {
      OP_REQUIRES_OK(ctx, FindHomes(&pipeline, &source));
      bad = FirstBadSlot(source, bad);
    }
    OP_REQUIRES(ctx, bad < 0, BadSlot(source, bad));
    for (int i = 0; i < k_; ++i) OP_REQUIRES_OK(ctx, LookUp(ctx, source, i));
  }

 private:
  tensorflow::Status FindHomes(std::shared_ptr<Pipeline>* pipeline, GatherSource* source) const {
    TF_RETURN_IF_ERROR(ToStatus(CurrentPipeline(pipeline)));
    const Table* table = (*pipeline)->table(table_);
    if (table == nullptr) {
      return Refuse(Code::kFailedPrecondition, type_string(), ": table ", table_, " is not of this pipeline");
    }
    if (table->device().dim() != source->dim) {
      return Refuse(Code::kInvalidArgument, type_string(), ": rows of ", source->dim,
                    " floats cannot stand beside home rows of table '", table->name(), "', which has dim ",
                    table->device().dim());
    }
    const HomeRows home = table->home();
    source->homes = home.data;
    source->home_count = home.ready;
    source->home_floats = home.row_floats;
    return tensorflow::Status::OK();
  }

  tensorflow::Status BadSlot(const GatherSource& source, std::int64_t bad) const {
    const std::int32_t slot = source.slots[bad];
    if (slot <= layout::kSlotHome && table_ >= 0) {
      return Refuse(Code::kInvalidArgument, type_string(), ": slot ", slot, " at index ", bad, " is home row ",
                    layout::kSlotHome - static_cast<std::int64_t>(slot), ", table ", table_, " has ",
                    source.home_count);
    }
    return Refuse(Code::kInvalidArgument, type_string(), ": slot ", slot, " at index ", bad, " is outside [0, ",
                  source.row_count, ") and not -1");
  }

  tensorflow::Status LookUp(tensorflow::OpKernelContext* ctx, const GatherSource& source, int which) const {
    const tensorflow::Tensor& restore = ctx->input(2 + which);
    tensorflow::TensorShape shape = restore.shape();
    shape.AddDim(source.dim);
    tensorflow::Tensor* embeddings;
    TF_RETURN_IF_ERROR(ctx->allocate_output(which, shape, &embeddings));
    const std::int32_t* indexes = restore.flat<std::int32_t>().data();
    float* out = embeddings->flat<float>().data();
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    std::atomic<std::int64_t> first_bad{kNone};
    const auto gather = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t bad = GatherRows(source, indexes, begin, end, out);
      std::int64_t known = first_bad.load();
      while (bad >= 0 && bad < known && !first_bad.compare_exchange_weak(known, bad)) {
      }
    };
    ShareBlocks(ctx, restore.NumElements(), 4 * BlockRows(source.dim), gather);
    const std::int64_t bad = first_bad.load();
    if (bad == kNone) return tensorflow::Status::OK();
    return Refuse(Code::kInvalidArgument, type_string(), ": restore index ", indexes[bad], " at position ", bad,
                  " of lookup ", which, " is outside [0, ", source.slot_count, ") and not -1");
  }

  int k_;
  int table_ = -1;
};

REGISTER_KERNEL_BUILDER(Name("AscLookup").Device(tensorflow::DEVICE_CPU), LookupOp);
REGISTER_KERNEL_BUILDER(Name("AscRestoreRows").Device(tensorflow::DEVICE_CPU), LookupOp);

}  // namespace ascpipe
