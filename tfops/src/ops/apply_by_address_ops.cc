// AscApplyGradientDescentByAddress, -AdagradByAddress, -LazyAdamByAddress: optimizers of rows that are used at home.
#include <memory>

#include "bridge/handled_rows.h"
#include "bridge/row_update.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

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
AscApplyGradientDescent for rows of an expansion table, where they lie.

handles: int64[m] of AscLocalRows in the same step, all of one table, no repeats; what belongs to 0 is left out. All are
  examined before a row is changed.
grad: float[m, dim].
)doc");

REGISTER_OP("AscApplyAdagradByAddress")
    .Input("handles: int64")
    .Input("grad: float")
    .Input("rate: float")
    .SetIsStateful()
    .SetShapeFn(ShapesOfUpdateByAddress<ascpipe::AdagradByAddress>)
    .Doc(R"doc(
Adagrad for rows of an expansion table, where they lie: a row is [w | accumulator], and
accumulator += g * g; w -= rate * g / sqrt(accumulator + 1e-7).

handles: int64[m] of AscLocalRows in the same step, all of one table, no repeats; what belongs to 0 is left out. All are
  examined before a row is changed.
grad: float[m, dim].
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
AscApplyLazyAdam for rows of an expansion table, where they lie: a row is [w | m | v].

handles: int64[m] of AscLocalRows in the same step, all of one table, no repeats; what belongs to 0 is left out. All are
  examined before a row is changed.
grad: float[m, dim].
)doc");

namespace ascpipe {

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
    std::shared_ptr<Pipeline> pipeline;  // its mapping stays while rows are updated
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

REGISTER_KERNEL_BUILDER(Name("AscApplyGradientDescentByAddress").Device(tensorflow::DEVICE_CPU),
                        ApplyByAddressOp<GradientDescent>);
REGISTER_KERNEL_BUILDER(Name("AscApplyAdagradByAddress").Device(tensorflow::DEVICE_CPU),
                        ApplyByAddressOp<AdagradByAddress>);
REGISTER_KERNEL_BUILDER(Name("AscApplyLazyAdamByAddress").Device(tensorflow::DEVICE_CPU), ApplyByAddressOp<LazyAdam>);

}  // namespace ascpipe
