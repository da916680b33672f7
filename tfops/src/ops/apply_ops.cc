// AscApplyGradientDescent, -Adagrad, -LazyAdam, -Ftrl: optimizers of rows that lie in variables.
#include <algorithm>
#include <vector>

#include "bridge/row_update.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

// states: variables of one shape; then scalars; then the gradient and its indices.
template <typename Rule>
tensorflow::Status ShapesOfUpdate(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle state, rest, scalar, grad, rows, merged;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &state));
  for (int i = 1; i < Rule::kStates; ++i) TF_RETURN_IF_ERROR(c->Merge(state, c->input(i), &state));
  const int indices = Rule::kStates + ascpipe::Numbers<Rule>() + 1;
  for (int i = Rule::kStates; i < indices - 1; ++i) TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(indices), 1, &rows));
  TF_RETURN_IF_ERROR(c->Subshape(state, 1, &rest));
  TF_RETURN_IF_ERROR(c->Concatenate(rows, rest, &grad));
  return c->Merge(grad, c->input(indices - 1), &merged);
}

}  // namespace

REGISTER_OP("AscApplyGradientDescent")
    .Input("rows: Ref(float)")
    .Input("rate: float")
    .Input("weight_decay: float")
    .Input("grad: float")
    .Input("indices: Tindices")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .SetShapeFn(ShapesOfUpdate<ascpipe::GradientDescent>)
    .Doc(R"doc(
Gradient descent: w -= (g + weight_decay * w) * rate.

rows: float[n, ...], a variable.
grad: float[m, ...], of the rows at indices.
indices: [m] in [0, n), no repeats; all are examined before a row is changed.
use_locking: whether updates of the same variables exclude each other.
)doc");

REGISTER_OP("AscApplyAdagrad")
    .Input("rows: Ref(float)")
    .Input("accumulator: Ref(float)")
    .Input("rate: float")
    .Input("grad: float")
    .Input("indices: Tindices")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .SetShapeFn(ShapesOfUpdate<ascpipe::Adagrad>)
    .Doc(R"doc(
Adagrad: accumulator += g * g; w -= rate * g * (1 / sqrt(accumulator)).

The root is the exact one, and each operation is rounded as written: the same bits at any place, dim and number of
threads.

rows: float[n, ...], a variable.
accumulator: float[n, ...], a variable.
grad: float[m, ...], of the rows at indices.
indices: [m] in [0, n), no repeats; all are examined before a row is changed.
use_locking: whether updates of the same variables exclude each other.
)doc");

REGISTER_OP("AscApplyLazyAdam")
    .Input("rows: Ref(float)")
    .Input("m: Ref(float)")
    .Input("v: Ref(float)")
    .Input("rate: float")
    .Input("beta1: float")
    .Input("beta2: float")
    .Input("epsilon: float")
    .Input("beta1_power: float")
    .Input("beta2_power: float")
    .Input("grad: float")
    .Input("indices: Tindices")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .SetShapeFn(ShapesOfUpdate<ascpipe::LazyAdam>)
    .Doc(R"doc(
Lazy Adam: m = beta1 * m + (1 - beta1) * g; v = beta2 * v + (1 - beta2) * (g * g);
w -= (rate * sqrt(1 - beta2_power) / (1 - beta1_power)) * m / (sqrt(v) + epsilon).

The roots are exact, and each operation is rounded as written: the same bits at any place, dim and number of threads.

rows: float[n, ...], a variable.
m: float[n, ...], a variable.
v: float[n, ...], a variable.
beta1_power: beta1 to the power of the step.
beta2_power: beta2 to the power of the step.
grad: float[m, ...], of the rows at indices.
indices: [m] in [0, n), no repeats; all are examined before a row is changed.
use_locking: whether updates of the same variables exclude each other.
)doc");

REGISTER_OP("AscApplyFtrl")
    .Input("rows: Ref(float)")
    .Input("accum: Ref(float)")
    .Input("linear: Ref(float)")
    .Input("rate: float")
    .Input("l1: float")
    .Input("l2: float")
    .Input("l2_shrinkage: float")
    .Input("power: float")
    .Input("grad: float")
    .Input("indices: Tindices")
    .Attr("Tindices: {int32, int64}")
    .Attr("use_locking: bool = false")
    .SetShapeFn(ShapesOfUpdate<ascpipe::Ftrl>)
    .Doc(R"doc(
FTRL: shrunk = g + 2 * l2_shrinkage * w; new = accum + g * g; p = -power;
linear += shrunk - (new^p - accum^p) / rate * w; accum = new;
w = (min(max(linear, -l1), l1) - linear) / (new^p / rate + 2 * l2).

With power -0.5 the roots are exact.  Each operation is rounded as written: the same bits at any place, dim and number
of threads.

rows: float[n, ...], a variable.
accum: float[n, ...], a variable.
linear: float[n, ...], a variable.
rate: more than 0.
power: at most 0.
grad: float[m, ...], of the rows at indices.
indices: [m] in [0, n), no repeats; all are examined before a row is changed.
use_locking: whether updates of the same variables exclude each other.
)doc");

namespace ascpipe {

template <typename Rule, typename Index>
class ApplyOp : public tensorflow::OpKernel {
 public:
  explicit ApplyOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("use_locking", &use_locking_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<tensorflow::mutex*> locked = Lock(ctx);
    const tensorflow::Status status = Apply(ctx);
    for (tensorflow::mutex* mutex : locked) mutex->unlock();
    OP_REQUIRES_OK(ctx, status);
  }

 private:
  // Locked in the order of their addresses, so that two updates never deadlock.
  std::vector<tensorflow::mutex*> Lock(tensorflow::OpKernelContext* ctx) const {
    std::vector<tensorflow::mutex*> mutexes;
    if (!use_locking_) return mutexes;
    for (int state = 0; state < Rule::kStates; ++state) mutexes.push_back(ctx->input_ref_mutex(state));
    std::sort(mutexes.begin(), mutexes.end());
    mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
    for (tensorflow::mutex* mutex : mutexes) mutex->lock();
    return mutexes;
  }

  tensorflow::Status Apply(tensorflow::OpKernelContext* ctx) const {
    Rule rule;
    TF_RETURN_IF_ERROR(ReadRule(ctx, Rule::kStates, &rule));
    const tensorflow::Tensor& grad = ctx->input(Rule::kStates + Numbers<Rule>());
    const tensorflow::Tensor& indices = ctx->input(Rule::kStates + Numbers<Rule>() + 1);
    UpdatedRows update = {};
    std::int64_t row_count = 0;
    tensorflow::TensorShape expected;  // of the gradient
    for (int state = 0; state < Rule::kStates; ++state) {
      tensorflow::Tensor variable = ctx->mutable_input(state, use_locking_);
      if (state == 0) {
        if (variable.dims() < 1 || indices.dims() != 1) {
          return Refuse(Code::kInvalidArgument, type_string(), ": rows and indices have shapes ",
                        variable.shape().DebugString(), " and ", indices.shape().DebugString(),
                        ", expected rows and a vector. Nothing was updated");
        }
        row_count = variable.dim_size(0);
        expected = variable.shape();
      } else if (variable.shape() != expected) {
        return Refuse(Code::kInvalidArgument, type_string(), ": '", requested_input(state), "' has shape ",
                      variable.shape().DebugString(), " beside rows of shape ", expected.DebugString(),
                      ". Nothing was updated");
      }
      update.states[state] = variable.flat<float>().data();
    }
    expected.set_dim(0, indices.NumElements());
    if (grad.shape() != expected) {
      return Refuse(Code::kInvalidArgument, type_string(), ": the gradient has shape ", grad.shape().DebugString(),
                    ", expected ", expected.DebugString(), ". Nothing was updated");
    }
    const Index* const index = indices.flat<Index>().data();
    const std::int64_t count = indices.NumElements();
    for (std::int64_t i = 0; i < count; ++i) {
      if (index[i] < 0 || index[i] >= row_count) {
        return Refuse(Code::kInvalidArgument, type_string(), ": row ", index[i], " at index ", i, " is outside [0, ",
                      row_count, "). Nothing was updated");
      }
    }
    if (count == 0) return tensorflow::Status::OK();
    update.dim = update.stride = grad.NumElements() / count;
    update.grads = grad.flat<float>().data();
    UpdateTogether(ctx, rule, update, count, [index](std::int64_t i) { return index[i]; });
    return tensorflow::Status::OK();
  }

  bool use_locking_;
};

#define ASC_REGISTER(op, rule)                                                                                      \
  REGISTER_KERNEL_BUILDER(                                                                                          \
      Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<tensorflow::int32>("Tindices"),                        \
      ApplyOp<rule, tensorflow::int32>);                                                                            \
  REGISTER_KERNEL_BUILDER(                                                                                          \
      Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<tensorflow::int64>("Tindices"),                        \
      ApplyOp<rule, tensorflow::int64>)

ASC_REGISTER("AscApplyGradientDescent", GradientDescent);
ASC_REGISTER("AscApplyAdagrad", Adagrad);
ASC_REGISTER("AscApplyLazyAdam", LazyAdam);
ASC_REGISTER("AscApplyFtrl", Ftrl);

#undef ASC_REGISTER

}  // namespace ascpipe
