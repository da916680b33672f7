// Optimizer ops that update rows of variables: AscApplyGradientDescent, AscApplyAdagrad, AscApplyLazyAdam and
// AscApplyFtrl. AscUpdate applies one optimizer to several tables.
#include <algorithm>
#include <string>
#include <vector>

#include "bridge/compatibility.h"
#include "bridge/row_update.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

// Shape function of the updates. The inputs are the states (variables of the same shape), the scalar parameters, the
// gradient, and the row numbers of the gradient.
template <typename Rule>
tensorflow::Status ShapesOfUpdate(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle state, rest, scalar, grad, rows, merged;
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(0), 1, &state));
  for (int i = 1; i < Rule::kStates; ++i) TF_RETURN_IF_ERROR(c->Merge(state, c->input(i), &state));
  const int indices = Rule::kStates + ascpipe::ParameterCount<Rule>() + 1;
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
grad: float[m, ...], the gradients of the rows at `indices`.
indices: [m], distinct, each in [0, n). All indices are validated before a row is changed.
use_locking: If true, updates of the same variables exclude each other.
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

The square root is exact, and each operation is rounded as written. The result therefore does not depend on a row's
position, dim or the number of threads.

accumulator: float[n, ...], a variable.
rows, grad, indices, use_locking: See AscApplyGradientDescent.
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

Square roots are exact, and each operation is rounded as written. The result therefore does not depend on a row's
position, dim or the number of threads.

m: float[n, ...], a variable.
v: float[n, ...], a variable.
beta1_power: beta1 to the power of the step.
beta2_power: beta2 to the power of the step.
rows, grad, indices, use_locking: See AscApplyGradientDescent.
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

If power is -0.5, square roots are exact. Each operation is rounded as written. The result therefore does not depend
on a row's position, dim or the number of threads.

accum: float[n, ...], a variable.
linear: float[n, ...], a variable.
rate: Greater than 0.
power: At most 0.
rows, grad, indices, use_locking: See AscApplyGradientDescent.
)doc");

// AscUpdate is not stateful. AscUpdate has a different name for each set of fetches, and a session would keep a
// stateful kernel for each name.
REGISTER_OP("AscUpdate")
    .Input("states: Ref(n_states * float)")
    .Input("numbers: m * float")
    .Input("grads: n * float")
    .Input("indices: n * Tindices")
    .Attr("rule: string")
    .Attr("n_states: int >= 1")
    .Attr("m: int >= 1")
    .Attr("n: int >= 1")
    .Attr("Tindices: {int32, int64}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return ascpipe::OkStatus(); })
    .Doc(R"doc(
Updates several tables with one formula and the same parameters.

The op replaces one update op per table. All indices of all tables are validated before a row is changed.

states: The variables of each table, in the order of the inputs of the op `rule`.
numbers: The scalar parameters of the op `rule`, in the order of its inputs.
grads: The gradient of each table.
indices: The indices of each table.
rule: The op that updates one table, for example AscApplyAdagrad.
)doc");

namespace ascpipe {

namespace {

// Update of one table, as a part of an op. The struct contains the inputs of the op that belong to the table, and the
// indexes of these inputs.
template <typename Rule, typename Index>
struct TableUpdate {
  int state, grad, indices;  // indexes of inputs; `state` is the first state
  UpdatedRows update = {};
  const Index* index = nullptr;
  std::int64_t count = 0;

  TableUpdate(int state, int grad, int indices) : state(state), grad(grad), indices(indices) {}

  // Reads and checks all inputs.
  tensorflow::Status Read(tensorflow::OpKernelContext* ctx, bool locked) {
    const tensorflow::OpKernel& op = ctx->op_kernel();
    const tensorflow::Tensor& gradient = ctx->input(grad);
    const tensorflow::Tensor& rows = ctx->input(indices);
    std::int64_t row_count = 0;
    tensorflow::TensorShape expected;  // shape of the gradient
    for (int i = 0; i < Rule::kStates; ++i) {
      tensorflow::Tensor variable = ctx->mutable_input(state + i, locked);
      if (i == 0) {
        if (variable.dims() < 1 || rows.dims() != 1) {
          return Refuse(Code::kInvalidArgument, op.type_string(), ": rows and indices have shapes ",
                        variable.shape().DebugString(), " and ", rows.shape().DebugString(),
                        ", expected rows and a vector. Nothing was updated");
        }
        row_count = variable.dim_size(0);
        expected = variable.shape();
      } else if (variable.shape() != expected) {
        return Refuse(Code::kInvalidArgument, op.type_string(), ": '", op.requested_input(state + i), "' has shape ",
                      variable.shape().DebugString(), " beside rows of shape ", expected.DebugString(),
                      ". Nothing was updated");
      }
      update.states[i] = variable.flat<float>().data();
    }
    count = rows.NumElements();
    expected.set_dim(0, count);
    if (gradient.shape() != expected) {
      return Refuse(Code::kInvalidArgument, op.type_string(), ": the gradient has shape ",
                    gradient.shape().DebugString(), ", expected ", expected.DebugString(), ". Nothing was updated");
    }
    index = rows.flat<Index>().data();
    for (std::int64_t i = 0; i < count; ++i) {
      if (index[i] < 0 || index[i] >= row_count) {
        return Refuse(Code::kInvalidArgument, op.type_string(), ": row ", index[i], " at index ", i, " is outside [0, ",
                      row_count, "). Nothing was updated");
      }
    }
    update.dim = update.stride = count == 0 ? 0 : gradient.NumElements() / count;
    update.grads = gradient.flat<float>().data();
    return OkStatus();
  }
};

// Updates several tables with one formula.
template <typename Rule, typename Index>
tensorflow::Status ApplyRule(tensorflow::OpKernelContext* ctx, int tables, bool locked) {
  Rule rule;
  TF_RETURN_IF_ERROR(ReadRule(ctx, tables * Rule::kStates, &rule));
  const int first = tables * Rule::kStates + ParameterCount<Rule>();
  std::vector<TableUpdate<Rule, Index>> updates;
  std::vector<std::int64_t> ends;  // running total of the sizes of the tables' gradients
  std::int64_t total = 0, dim = 1;
  for (int table = 0; table < tables; ++table) {
    updates.emplace_back(table * Rule::kStates, first + table, first + tables + table);
    TF_RETURN_IF_ERROR(updates.back().Read(ctx, locked));
    total += updates.back().count;
    ends.push_back(total);
    dim = std::max(dim, updates.back().update.dim);
  }
  ShareBlocks(ctx, total, UpdateBlock<Rule>(dim), [&](std::int64_t begin, std::int64_t end) {
    auto at = static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
    for (; begin < end; ++at) {
      const TableUpdate<Rule, Index>& table = updates[at];
      const std::int64_t before = ends[at] - table.count, last = std::min(end, ends[at]);
      UpdateSome(rule, table.update, begin - before, last - before,
                 [&table](std::int64_t i) { return table.index[i]; });
      begin = last;
    }
  });
  return OkStatus();
}

// A formula: the number of its variables, the number of its parameters, and the function that applies the formula.
struct UpdateRule {
  int states, numbers;
  tensorflow::Status (*apply)(tensorflow::OpKernelContext* ctx, int tables, bool locked);
};

template <typename Rule>
UpdateRule RuleOf(tensorflow::DataType index) {
  const bool is_narrow = index == tensorflow::DT_INT32;
  return {Rule::kStates, ParameterCount<Rule>(),
          is_narrow ? &ApplyRule<Rule, tensorflow::int32> : &ApplyRule<Rule, tensorflow::int64>};
}

// Returns the formula of an op that updates one table. `apply` is null if `op` does not update one table.
UpdateRule FindRule(const std::string& op, tensorflow::DataType index) {
  if (op == "AscApplyGradientDescent") return RuleOf<GradientDescent>(index);
  if (op == "AscApplyAdagrad") return RuleOf<Adagrad>(index);
  if (op == "AscApplyLazyAdam") return RuleOf<LazyAdam>(index);
  if (op == "AscApplyFtrl") return RuleOf<Ftrl>(index);
  return {0, 0, nullptr};
}

}  // namespace

// Kernel of all five ops. For an op other than AscUpdate, the name of the op selects the formula, and the op has one
// table.
class UpdateOp : public tensorflow::OpKernel {
 public:
  explicit UpdateOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    std::string name = type_string();
    tensorflow::DataType index;
    OP_REQUIRES_OK(construction, construction->GetAttr("Tindices", &index));
    const bool has_tables = construction->HasAttr("rule");
    if (has_tables) {
      OP_REQUIRES_OK(construction, construction->GetAttr("rule", &name));
      OP_REQUIRES_OK(construction, construction->GetAttr("n", &tables_));
    } else {
      OP_REQUIRES_OK(construction, construction->GetAttr("use_locking", &use_locking_));
    }
    rule_ = FindRule(name, index);
    if (has_tables) OP_REQUIRES_OK(construction, RequireFit(construction, name));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    std::vector<tensorflow::mutex*> locked = Lock(ctx);
    const tensorflow::Status status = rule_.apply(ctx, tables_, use_locking_);
    for (tensorflow::mutex* mutex : locked) mutex->unlock();
    OP_REQUIRES_OK(ctx, status);
  }

 private:
  tensorflow::Status RequireFit(tensorflow::OpKernelConstruction* construction, const std::string& name) const {
    int states, numbers;
    TF_RETURN_IF_ERROR(construction->GetAttr("n_states", &states));
    TF_RETURN_IF_ERROR(construction->GetAttr("m", &numbers));
    if (rule_.apply != nullptr && states == tables_ * rule_.states && numbers == rule_.numbers) {
      return OkStatus();
    }
    return Refuse(Code::kInvalidArgument, "AscUpdate: ", states, " variables and ", numbers, " parameters do not fit ",
                  tables_, " tables of ", name);
  }

  // Locks the variables in the order of their addresses, so that two updates never deadlock.
  std::vector<tensorflow::mutex*> Lock(tensorflow::OpKernelContext* ctx) const {
    std::vector<tensorflow::mutex*> mutexes;
    if (!use_locking_) return mutexes;
    for (int state = 0; state < tables_ * rule_.states; ++state) mutexes.push_back(ctx->input_ref_mutex(state));
    std::sort(mutexes.begin(), mutexes.end());
    mutexes.erase(std::unique(mutexes.begin(), mutexes.end()), mutexes.end());
    for (tensorflow::mutex* mutex : mutexes) mutex->lock();
    return mutexes;
  }

  int tables_ = 1;
  bool use_locking_ = false;
  UpdateRule rule_;
};

REGISTER_KERNEL_BUILDER(Name("AscUpdate").Device(tensorflow::DEVICE_CPU), UpdateOp);
REGISTER_KERNEL_BUILDER(Name("AscApplyGradientDescent").Device(tensorflow::DEVICE_CPU), UpdateOp);
REGISTER_KERNEL_BUILDER(Name("AscApplyAdagrad").Device(tensorflow::DEVICE_CPU), UpdateOp);
REGISTER_KERNEL_BUILDER(Name("AscApplyLazyAdam").Device(tensorflow::DEVICE_CPU), UpdateOp);
REGISTER_KERNEL_BUILDER(Name("AscApplyFtrl").Device(tensorflow::DEVICE_CPU), UpdateOp);

}  // namespace ascpipe
