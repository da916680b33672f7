// AscWithInitialRows and AscLookupWithInitialRows return one row for each key: the key's row, or an initial row if the
// key has no row.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "bridge/parallel.h"
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "core/initial_pool.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

// Shape function of the ops. Input 1 contains the keys, and input `per_key` has the same shape as input 1. The two
// inputs after `per_key` describe the initial rows.
template <int per_key>
tensorflow::Status ShapeOfRows(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle keys, unused, out;
  tensorflow::int64 dim;
  TF_RETURN_IF_ERROR(c->Merge(c->input(1), c->input(per_key), &keys));
  if (per_key > 2) TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &unused));  // slots
  TF_RETURN_IF_ERROR(c->WithRank(c->input(per_key + 1), 1, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(per_key + 2), 2, &unused));
  TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
  TF_RETURN_IF_ERROR(c->Concatenate(keys, c->Vector(dim), &out));
  TF_RETURN_IF_ERROR(c->Merge(c->input(0), out, &out));
  c->set_output(0, out);
  return ascpipe::OkStatus();
}

}  // namespace

REGISTER_OP("AscWithInitialRows")
    .Input("rows: float")
    .Input("keys: T")
    .Input("found: bool")
    .Input("parameters: double")
    .Input("pool: float")
    .Output("completed: float")
    .Attr("T: {int32, int64}")
    .Attr("dim: int >= 1")
    .Attr("seed: int = 0")
    .Attr("kind: int >= 0 = 0")
    .Attr("table: int = -1")
    .SetShapeFn(ShapeOfRows<2>)
    .Doc(R"doc(
Replaces the rows of keys without a row by their initial rows.

An initial row is a pure function of a seed and the key. Training would start with the same row.

rows: float, the shape of the keys followed by dim. Rows of keys without a row are ignored.
keys: A tensor of any shape.
found: bool, with the shape of the keys: true if the key has a row.
parameters: double[3]: a and b of the kind of initial rows, and the factor of each value.
pool: float[pool rows, dim], from which keys select a row by hash; [0, dim] if the kind is not a pool.
completed: float, with the shape of rows.
dim: Length of a row.
seed: 64 bits, as a signed number.
kind: Kind of initial rows, from ascpipe/layout/initial_kinds.py.
table: Number of a table of the running pipeline, or -1. The seed, kind, parameters and pool of this table then replace
  the inputs and attributes; a restored checkpoint may have changed them.
)doc");

// AscLookupWithInitialRows has the inputs of a lookup. AscWithInitialRows needs a boolean tensor that marks the
// existing keys, and computing this tensor would take longer than the op itself.
REGISTER_OP("AscLookupWithInitialRows")
    .Input("rows: float")
    .Input("keys: T")
    .Input("slots: int32")
    .Input("restore: int32")
    .Input("parameters: double")
    .Input("pool: float")
    .Output("completed: float")
    .Attr("T: {int32, int64}")
    .Attr("dim: int >= 1")
    .Attr("seed: int = 0")
    .Attr("kind: int >= 0 = 0")
    .Attr("table: int = -1")
    .SetShapeFn(ShapeOfRows<3>)
    .Doc(R"doc(
Replaces the looked-up rows of keys without a row by their initial rows.

rows: float, the shape of the keys followed by dim. Rows of keys without a row are ignored.
keys: A tensor of any shape.
slots: int32[distinct keys] of the plan; -1 for a key without a row.
restore: int32, with the shape of the keys: indexes into slots. -1 if the position has no key; its row does not change.
parameters, pool, dim, seed, kind, table: See AscWithInitialRows.
completed: float, with the shape of rows.
)doc");

namespace ascpipe {

// Kernel of AscWithInitialRows and AscLookupWithInitialRows.
class WithInitialRowsOp : public tensorflow::OpKernel {
 public:
  explicit WithInitialRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    tensorflow::int64 seed;
    int kind;
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
    OP_REQUIRES_OK(construction, construction->GetAttr("seed", &seed));
    OP_REQUIRES_OK(construction, construction->GetAttr("kind", &kind));
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES(construction, kind <= layout::kInitialPool,
                Refuse(Code::kInvalidArgument, "AscWithInitialRows: kind of initial rows ", kind, " is outside [0, ",
                       layout::kInitialPool, "]"));
    parameters_ = construction->num_inputs() - 2;
    given_.seed = static_cast<std::uint64_t>(seed);
    given_.kind = static_cast<layout::InitialKind>(kind);
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    OP_REQUIRES_OK(ctx, CheckShapes(ctx));
    std::shared_ptr<Pipeline> pipeline;  // keeps the table alive
    InitialRows own;
    const InitialRows* initial = &own;
    const float* pool;
    if (table_ >= 0) {
      OP_REQUIRES_OK(ctx, FindTable(&pipeline, &initial));
      pool = initial->pool.data();
    } else {
      OP_REQUIRES_OK(ctx, ReadGiven(ctx, &own, &pool));
    }
    tensorflow::Tensor* completed;
    OP_REQUIRES_OK(ctx, ctx->forward_input_or_allocate_output({0}, 0, ctx->input(0).shape(), &completed));
    const tensorflow::Tensor& keys = ctx->input(1);
    const float* const rows = ctx->input(0).flat<float>().data();
    float* const out = completed->flat<float>().data();
    const auto complete = [&](const auto* key, const auto& has_row) {
      ShareBlocks(ctx, keys.NumElements(), BlockRows(dim_), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if (!has_row(i)) {
            FillFrom(*initial, pool, key[i], dim_, out + i * dim_);
          } else if (out != rows) {
            std::copy_n(rows + i * dim_, dim_, out + i * dim_);
          }
        }
      });
    };
    const auto complete_keys = [&](const auto& has_row) {
      if (keys.dtype() == tensorflow::DT_INT32) return complete(keys.flat<tensorflow::int32>().data(), has_row);
      complete(keys.flat<tensorflow::int64>().data(), has_row);
    };
    if (is_found_given()) {
      const bool* const found = ctx->input(2).flat<bool>().data();
      complete_keys([found](std::int64_t i) { return found[i]; });
    } else {
      const tensorflow::int32* const slots = ctx->input(2).flat<tensorflow::int32>().data();
      const tensorflow::int32* const restore = ctx->input(3).flat<tensorflow::int32>().data();
      const std::int64_t count = ctx->input(2).NumElements();
      complete_keys([=](std::int64_t i) { return restore[i] < 0 || restore[i] >= count || slots[restore[i]] != -1; });
    }
  }

 private:
  // Returns true if the op has a boolean input that marks the keys with rows. Returns false if the op has the inputs
  // slots and restore instead.
  bool is_found_given() const { return parameters_ == 3; }

  tensorflow::Status CheckShapes(tensorflow::OpKernelContext* ctx) const {
    const tensorflow::TensorShape& keys = ctx->input(1).shape();
    tensorflow::TensorShape wanted = keys;
    wanted.AddDim(dim_);
    if (ctx->input(0).shape() != wanted) {
      return Refuse(Code::kInvalidArgument, "AscWithInitialRows: rows have shape ", ctx->input(0).shape().DebugString(),
                    ", expected ", wanted.DebugString(), ", that of the keys and ", "then dim");
    }
    const int place = parameters_ - 1;
    if (ctx->input(place).shape() != keys) {
      return Refuse(Code::kInvalidArgument, "AscWithInitialRows: ", is_found_given() ? "found" : "restore",
                    " has shape ", ctx->input(place).shape().DebugString(), ", keys have ", keys.DebugString());
    }
    return OkStatus();
  }

  tensorflow::Status FindTable(std::shared_ptr<Pipeline>* pipeline, const InitialRows** initial) const {
    TF_RETURN_IF_ERROR(ToStatus(CurrentPipeline(pipeline)));
    const Table* const table = (*pipeline)->table(table_);
    if (table == nullptr) {
      return Refuse(Code::kFailedPrecondition, "AscWithInitialRows: table ", table_, " is not of this pipeline");
    }
    if (table->device().dim() != dim_) {
      return Refuse(Code::kInvalidArgument, "AscWithInitialRows: table '", table->name(), "' has rows of ",
                    table->device().dim(), " floats, dim is ", dim_);
    }
    *initial = &table->initial();
    return OkStatus();
  }

  tensorflow::Status ReadGiven(tensorflow::OpKernelContext* ctx, InitialRows* own, const float** pool) const {
    const tensorflow::Tensor& parameters = ctx->input(parameters_);
    const tensorflow::Tensor& rows = ctx->input(parameters_ + 1);
    if (parameters.dims() != 1 || parameters.dim_size(0) != 3) {
      return Refuse(Code::kInvalidArgument, "AscWithInitialRows: parameters have shape ",
                    parameters.shape().DebugString(), ", expected [3]: a, b and scale");
    }
    if (rows.dims() != 2 || rows.dim_size(1) != dim_) {
      return Refuse(Code::kInvalidArgument, "AscWithInitialRows: pool has shape ", rows.shape().DebugString(),
                    ", expected [pool rows, ", dim_, "]");
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 32;
    if (given_.kind == layout::kInitialPool && (rows.dim_size(0) < 1 || rows.dim_size(0) > kMost)) {
      return Refuse(Code::kInvalidArgument, "AscWithInitialRows: pool has ", rows.dim_size(0),
                    " rows, expected 1 to 2^32");
    }
    const auto numbers = parameters.flat<double>();
    *own = given_;
    own->a = numbers(0);
    own->b = numbers(1);
    own->scale = numbers(2);
    own->pool_rows = rows.dim_size(0);
    *pool = rows.flat<float>().data();
    return OkStatus();
  }

  tensorflow::int64 dim_;
  int table_;
  int parameters_;     // index of the input
  InitialRows given_;  // seed and kind
};

REGISTER_KERNEL_BUILDER(Name("AscWithInitialRows").Device(tensorflow::DEVICE_CPU), WithInitialRowsOp);
REGISTER_KERNEL_BUILDER(Name("AscLookupWithInitialRows").Device(tensorflow::DEVICE_CPU), WithInitialRowsOp);

}  // namespace ascpipe
