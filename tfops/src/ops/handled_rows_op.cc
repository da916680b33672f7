// Ops on the home rows of expansion tables. AscLocalRows copies the rows of a batch's keys and returns the handles of
// the rows. AscNameRows returns only handles. AscReadRows and AscWriteRows read and write rows by handle.
// AscApplyGradientDescentByAddress, AscApplyAdagradByAddress and AscApplyLazyAdamByAddress update rows by handle.
#include <algorithm>
#include <memory>

#include "bridge/handled_rows.h"
#include "bridge/parallel.h"
#include "bridge/row_update.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscLocalRows")
    .Input("slots: int32")
    .Input("ticket: int64")
    .Output("handles: int64")
    .Output("places: int32")
    .Output("local: float")
    .Attr("table: int")
    .Attr("dim: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle slots, ticket;
      tensorflow::int64 dim;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &slots));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ticket));
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(0, slots);
      c->set_output(1, slots);
      c->set_output(2, c->Matrix(c->Dim(slots, 0), dim));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Copies the rows of a batch's distinct ids from an expansion table, and returns handles for these rows.

slots: int32[n], from AscNextPlan in training: codes of home rows of n distinct ids.
ticket: int64 scalar, the ticket of this AscNextPlan.
handles: int64[n], for AscReadRows and AscWriteRows, valid until the end of this step. 0 for a key without a row.
places: int32[n]. i for row i of `local`; 2^30 is added for a padding key. -1 for a key without a row.
local: float[n, dim], the embeddings. Zeros for a key without a row.
table: Number of the table, at most 254.
dim: Length of an embedding.
)doc");

// AscNameRows is not stateful. AscNameRows has a different name for each set of fetches, and a session would keep a
// stateful kernel for each name.
REGISTER_OP("AscNameRows")
    .Input("slots: int32")
    .Input("ticket: int64")
    .Output("handles: int64")
    .Output("places: int32")
    .Attr("table: int")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->input(0));
      c->set_output(1, c->input(0));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Returns the handles and places of AscLocalRows without copying rows.
)doc");

REGISTER_OP("AscReadRows")
    .Input("handles: int64")
    .Output("rows: float")
    .Attr("width: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle handles;
      tensorflow::int64 width;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &handles));
      TF_RETURN_IF_ERROR(c->GetAttr("width", &width));
      c->set_output(0, c->Matrix(c->Dim(handles, 0), width));
      return ascpipe::OkStatus();
    })
    .Doc(R"doc(
Reads rows of an expansion table: the embedding, then each optimizer slot.

handles: int64[m] of AscLocalRows in the same step, all of one table. Handles may repeat. The row of handle 0 contains
  zeros.
rows: float[m, width], the first `width` floats of each row.
width: At least 1, at most the length of a whole row.
)doc");

REGISTER_OP("AscWriteRows")
    .Input("handles: int64")
    .Input("rows: float")
    .Attr("add: bool = false")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle handles, rows;
      tensorflow::shape_inference::DimensionHandle count;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &handles));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &rows));
      return c->Merge(c->Dim(handles, 0), c->Dim(rows, 0), &count);
    })
    .Doc(R"doc(
Writes the first floats of rows of an expansion table.

All handles are validated before the first row is written. If a handle occurs more than once, its values are written or
added in the order of the handles, with any number of threads.

handles: int64[m] of AscLocalRows in the same step, all of one table. Values of handle 0 are ignored.
rows: float[m, width], for the first `width` floats of each row, at most the length of a whole row.
add: If true, values are added to the rows.
)doc");

namespace {

template <typename Rule>
tensorflow::Status ShapesOfUpdateByAddress(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle handles, grad, scalar;
  tensorflow::shape_inference::DimensionHandle count;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &handles));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &grad));
  for (int i = 0; i < ascpipe::ParameterCount<Rule>(); ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(2 + i), 0, &scalar));
  }
  return c->Merge(c->Dim(handles, 0), c->Dim(grad, 0), &count);
}

}  // namespace

REGISTER_OP("AscApplyGradientDescentByAddress")
    .Input("handles: int64")
    .Input("grad: float")
    .Input("rate: float")
    .Input("weight_decay: float")
    .SetIsStateful()
    .SetShapeFn(ShapesOfUpdateByAddress<ascpipe::GradientDescent>)
    .Doc(R"doc(
AscApplyGradientDescent for rows of an expansion table, in place.

handles: int64[m] of AscLocalRows in the same step, all of one table and distinct. Gradients of handle 0 are ignored.
  All handles are validated before a row is changed.
grad: float[m, dim].
)doc");

REGISTER_OP("AscApplyAdagradByAddress")
    .Input("handles: int64")
    .Input("grad: float")
    .Input("rate: float")
    .SetIsStateful()
    .SetShapeFn(ShapesOfUpdateByAddress<ascpipe::AdagradByAddress>)
    .Doc(R"doc(
Adagrad for rows of an expansion table, in place.

A row is [w | accumulator]. The formula is
accumulator += g * g; w -= rate * g / sqrt(accumulator + 1e-7).

handles, grad: See AscApplyGradientDescentByAddress.
)doc");

REGISTER_OP("AscApplyLazyAdamByAddress")
    .Input("handles: int64")
    .Input("grad: float")
    .Input("rate: float")
    .Input("beta1: float")
    .Input("beta2: float")
    .Input("epsilon: float")
    .Input("beta1_power: float")
    .Input("beta2_power: float")
    .SetIsStateful()
    .SetShapeFn(ShapesOfUpdateByAddress<ascpipe::LazyAdam>)
    .Doc(R"doc(
AscApplyLazyAdam for rows of an expansion table, in place. A row is [w | m | v].

handles, grad: See AscApplyGradientDescentByAddress.
)doc");

namespace ascpipe {

class NameRowsOp : public tensorflow::OpKernel {
 public:
  explicit NameRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES(construction, table_ >= 0 && table_ <= kMaxHandledTable,
                Refuse(Code::kInvalidArgument, type_string(), ": table number ", table_, " is outside [0, ",
                       kMaxHandledTable, "]: a handle has no room for more. Use fewer tables"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& slots = ctx->input(0);
    const tensorflow::Tensor& ticket = ctx->input(1);
    OP_REQUIRES(
        ctx, slots.dims() == 1 && ticket.dims() == 0,
        Refuse(Code::kInvalidArgument, type_string(), ": slots and ticket have shapes ", slots.shape().DebugString(),
               " and ", ticket.shape().DebugString(), ", expected a vector and a scalar"));
    std::shared_ptr<Pipeline> pipeline;  // keeps the memory of the table mapped
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindExpansionTable(table_, &pipeline, &table));
    OP_REQUIRES_OK(ctx, Examine(*pipeline->table(table_)));
    const std::int64_t number = ticket.scalar<tensorflow::int64>()();
    OP_REQUIRES(ctx, table.step == StepOf(number),
                Refuse(Code::kFailedPrecondition, type_string(), ": table '", table.name, "' is not training ticket ",
                       SequenceOf(number),
                       " now: slots are valid in the step whose "
                       "AscNextPlan gave them. Fetch a batch and use it in one run call"));
    tensorflow::Tensor *handles, *places;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, slots.shape(), &handles));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, slots.shape(), &places));
    const auto codes = slots.flat<tensorflow::int32>();
    const std::int64_t bad =
        NameRows(codes.data(), slots.NumElements(), table, AsInt64(handles), places->flat<tensorflow::int32>().data());
    OP_REQUIRES(ctx, bad < 0,
                Refuse(Code::kInvalidArgument, type_string(), ": slot ", codes(bad), " at index ", bad,
                       " is neither -1 nor one of the ", table.home.ready, " home rows of table '", table.name, "'"));
    OP_REQUIRES_OK(ctx, Copy(ctx, table, *handles));
  }

 protected:
  virtual tensorflow::Status Examine(const Table&) const { return OkStatus(); }
  virtual tensorflow::Status Copy(tensorflow::OpKernelContext*, const HandledTable&, const tensorflow::Tensor&) {
    return OkStatus();
  }

 private:
  int table_;
};

class LocalRowsOp : public NameRowsOp {
 public:
  explicit LocalRowsOp(tensorflow::OpKernelConstruction* construction) : NameRowsOp(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
  }

 protected:
  tensorflow::Status Examine(const Table& table) const override {
    const std::int64_t dim = table.device().dim();
    if (dim == dim_) return OkStatus();
    return Refuse(Code::kInvalidArgument, "AscLocalRows: rows of ", dim_, " floats of table '", table.name(),
                  "', which has dim ", dim);
  }

  tensorflow::Status Copy(tensorflow::OpKernelContext* ctx, const HandledTable& table,
                          const tensorflow::Tensor& handles) override {
    const std::int64_t n = handles.NumElements();
    tensorflow::Tensor* local;
    TF_RETURN_IF_ERROR(ctx->allocate_output(2, tensorflow::TensorShape({n, dim_}), &local));
    ReadRowsTogether(ctx, table.home, AsInt64(handles), n, dim_, local->flat<float>().data());
    return OkStatus();
  }

 private:
  tensorflow::int64 dim_;
};

class ReadRowsOp : public tensorflow::OpKernel {
 public:
  explicit ReadRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("width", &width_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::shared_ptr<Pipeline> pipeline;  // keeps the memory of the table mapped
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindHandledRows(ctx, width_, &pipeline, &table));
    const tensorflow::Tensor& handles = ctx->input(0);
    tensorflow::Tensor* rows;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({handles.NumElements(), width_}), &rows));
    ReadRowsTogether(ctx, table.home, AsInt64(handles), handles.NumElements(), width_, rows->flat<float>().data());
  }

 private:
  tensorflow::int64 width_;
};

class WriteRowsOp : public tensorflow::OpKernel {
 public:
  explicit WriteRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("add", &add_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& handles = ctx->input(0);
    const tensorflow::Tensor& rows = ctx->input(1);
    const std::int64_t count = handles.NumElements();
    OP_REQUIRES(ctx, rows.dims() == 2 && rows.dim_size(0) == count,
                Refuse(Code::kInvalidArgument, "AscWriteRows: rows have shape ", rows.shape().DebugString(), " for ",
                       count, " handles, expected [", count, ", width]. Nothing was written"));
    const std::int64_t width = rows.dim_size(1);
    std::shared_ptr<Pipeline> pipeline;  // keeps the memory of the table mapped
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindHandledRows(ctx, width, &pipeline, &table));
    const RowWrites writes = {table.home, AsInt64(handles), count, width, rows.flat<float>().data(), add_};
    const std::int64_t threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
    const std::int64_t parts = std::max<std::int64_t>(1, std::min(threads, count / BlockRows(width)));
    ShareBlocks(ctx, parts, 1, [&writes, parts](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) writes.Write(part, parts);
    });
  }

 private:
  bool add_;
};

template <typename Rule>
class ApplyByAddressOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    Rule rule;
    OP_REQUIRES_OK(ctx, ReadRule(ctx, 2, &rule));
    const tensorflow::Tensor& handles = ctx->input(0);
    const tensorflow::Tensor& grad = ctx->input(1);
    const std::int64_t count = handles.NumElements();
    OP_REQUIRES(ctx, grad.dims() == 2 && grad.dim_size(0) == count,
                Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grad.shape().DebugString(),
                       " for ", count, " handles, expected [", count, ", dim]. Nothing was updated"));
    const std::int64_t dim = grad.dim_size(1);
    std::shared_ptr<Pipeline> pipeline;  // keeps the memory of the table mapped
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindHandledRows(ctx, dim * Rule::kStates, &pipeline, &table));
    if (table.home.data == nullptr) return;  // all handles are 0
    const std::int64_t table_dim = pipeline->table(table.number)->device().dim();
    OP_REQUIRES(ctx, dim == table_dim,
                Refuse(Code::kInvalidArgument, type_string(), ": the gradient has rows of ", dim, " floats for table '",
                       table.name, "', which has dim ", table_dim, ". Nothing was updated"));
    UpdatedRows update = {};
    for (int state = 0; state < Rule::kStates; ++state) update.states[state] = table.home.data + state * dim;
    update.stride = table.home.row_floats;
    update.dim = dim;
    update.grads = grad.flat<float>().data();
    const std::int64_t* const named = AsInt64(handles);
    UpdateTogether(ctx, rule, update, count,
                   [named](std::int64_t i) { return named[i] == 0 ? std::int64_t{-1} : Handle::Of(named[i]).row; });
  }
};

REGISTER_KERNEL_BUILDER(Name("AscLocalRows").Device(tensorflow::DEVICE_CPU), LocalRowsOp);
REGISTER_KERNEL_BUILDER(Name("AscNameRows").Device(tensorflow::DEVICE_CPU), NameRowsOp);
REGISTER_KERNEL_BUILDER(Name("AscReadRows").Device(tensorflow::DEVICE_CPU), ReadRowsOp);
REGISTER_KERNEL_BUILDER(Name("AscWriteRows").Device(tensorflow::DEVICE_CPU), WriteRowsOp);
REGISTER_KERNEL_BUILDER(Name("AscApplyGradientDescentByAddress").Device(tensorflow::DEVICE_CPU),
                        ApplyByAddressOp<GradientDescent>);
REGISTER_KERNEL_BUILDER(Name("AscApplyAdagradByAddress").Device(tensorflow::DEVICE_CPU),
                        ApplyByAddressOp<AdagradByAddress>);
REGISTER_KERNEL_BUILDER(Name("AscApplyLazyAdamByAddress").Device(tensorflow::DEVICE_CPU), ApplyByAddressOp<LazyAdam>);

}  // namespace ascpipe
