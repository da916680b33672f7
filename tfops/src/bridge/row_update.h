// Row updates by ops: the parameters of the formulas, and the partition of rows among threads.
#ifndef ASCPIPE_BRIDGE_ROW_UPDATE_H_
#define ASCPIPE_BRIDGE_ROW_UPDATE_H_

#include <algorithm>
#include <utility>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/row_updates.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Returns the number of parameters of a formula. The parameters are inputs of the op, in the order of the members of
// Rule.
template <typename Rule>
constexpr int ParameterCount() {
  return sizeof(Rule) / sizeof(float);
}

template <typename Rule, std::size_t... which>
Rule MakeRule(const float* numbers, std::index_sequence<which...>) {
  return Rule{numbers[which]...};
}

inline CoreStatus CheckRule(const GradientDescent&) { return CoreStatus(); }
inline CoreStatus CheckRule(const Adagrad&) { return CoreStatus(); }
inline CoreStatus CheckRule(const AdagradByAddress&) { return CoreStatus(); }
inline CoreStatus CheckRule(const LazyAdam&) { return CoreStatus(); }
inline CoreStatus CheckRule(const Ftrl& rule) {
  if (rule.rate > 0 && rule.l1 >= 0 && rule.l2 >= 0 && rule.shrinkage >= 0 && rule.power <= 0) return CoreStatus();
  return Error(Code::kInvalidArgument, "FTRL cannot update with rate ", rule.rate, ", l1 ", rule.l1, ", l2 ", rule.l2,
               ", shrinkage ", rule.shrinkage, " and power ", rule.power,
               ": the rate must be positive, the power at "
               "most 0, the others at least 0. Nothing was updated");
}

// Reads the parameters of a formula from scalar inputs, beginning with input `first`.
template <typename Rule>
tensorflow::Status ReadRule(tensorflow::OpKernelContext* ctx, int first, Rule* rule) {
  float numbers[ParameterCount<Rule>()];
  for (int i = 0; i < ParameterCount<Rule>(); ++i) {
    const tensorflow::Tensor& number = ctx->input(first + i);
    if (number.dims() != 0) {
      return Refuse(Code::kInvalidArgument, ctx->op_kernel().type_string(), ": '",
                    ctx->op_kernel().requested_input(first + i), "' has shape ", number.shape().DebugString(),
                    ", expected a scalar. Nothing was updated");
    }
    numbers[i] = number.scalar<float>()();
  }
  *rule = MakeRule<Rule>(numbers, std::make_index_sequence<ParameterCount<Rule>()>());
  return ToStatus(CheckRule(*rule));
}

constexpr std::int64_t kMostUpdated = 512;  // rows of one call of Update

// Returns the number of rows in a block that one thread updates.
template <typename Rule>
std::int64_t UpdateBlock(std::int64_t dim) {
  return std::min(kMostUpdated, 4 * BlockRows(dim * Rule::kStates));
}

// Applies the gradients [begin, end). Gradient i changes row row_of(i), or no row if row_of(i) is -1. `update` contains
// the addresses of all rows and all gradients.
template <typename Rule, typename RowOf>
void UpdateSome(const Rule& rule, const UpdatedRows& update, std::int64_t begin, std::int64_t end,
                const RowOf& row_of) {
  std::int64_t rows[kMostUpdated];
  for (; begin < end; begin += kMostUpdated) {
    UpdatedRows part = update;
    part.n = std::min(kMostUpdated, end - begin);
    for (std::int64_t i = 0; i < part.n; ++i) rows[i] = row_of(begin + i);
    part.rows = rows;
    part.grads = update.grads + begin * update.dim;
    Update(rule, part);
  }
}

// Applies all `count` gradients on threads of the pool.
template <typename Rule, typename RowOf>
void UpdateTogether(tensorflow::OpKernelContext* ctx, const Rule& rule, const UpdatedRows& update, std::int64_t count,
                    const RowOf& row_of) {
  ShareBlocks(ctx, count, UpdateBlock<Rule>(update.dim),
              [&](std::int64_t begin, std::int64_t end) { UpdateSome(rule, update, begin, end, row_of); });
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_UPDATE_H_
