// Combines the rows of each bag of ids into one row, and computes the gradients. Sums are computed in the order of
// TensorFlow's embedding_lookup_sparse, so the results are bit-identical to TensorFlow's results.
#ifndef ASCPIPE_CORE_BAGS_H_
#define ASCPIPE_CORE_BAGS_H_

#include <cmath>
#include <cstdint>

#include "core/gather.h"
#include "core/processors.h"

namespace ascpipe {

enum class Combiner { kSum, kMean, kSqrtn };

struct Bags {
  const std::int64_t* splits;  // int64[count + 1]: bag b has the positions [splits[b], splits[b + 1])
  std::int64_t count;
  std::int64_t positions;
  const float* weights;  // float[positions], or null: 1 each
  Combiner combiner;
  float max_norm;  // rows are clipped to this norm first; 0: not clipped
};

// Rows of the positions of bags.
struct BagRows {
  GatherSource source;
  const std::int32_t* restore;  // int32[positions], -1 for the default row; null: row i for position i
};

// Returns the index of the first invalid split, or -1. Valid splits ascend from 0 to `positions`.
std::int64_t FirstBadSplit(const std::int64_t* splits, std::int64_t count, std::int64_t positions);

// Writes the combined row of bag b to out[b * stride], for b in [begin, end). A combined row is float[dim]. The row
// of an empty bag contains zeros. Returns the first position whose restore index is outside [-1, slot_count), or -1.
std::int64_t CombineBags(const BagRows& rows, const Bags& bags, std::int64_t begin, std::int64_t end, float* out,
                         std::int64_t stride);

// Writes the gradient of the weight of position i to out[i], for all positions of the bags [begin, end). `grad` is
// float[count, dim]. Returns the first invalid position or -1, like CombineBags.
std::int64_t WeightGradients(const BagRows& rows, const Bags& bags, const float* grad, std::int64_t begin,
                             std::int64_t end, float* out);

// Writes the gradient of the row of position i to out[i], for all positions of the bags [begin, end). `rows` is
// float[positions, dim], and is read only if rows are clipped to max_norm.
void RowGradients(const float* rows, const Bags& bags, const float* grad, std::int64_t dim, std::int64_t begin,
                  std::int64_t end, float* out);

// The functions below process one bag or one row.

// Sums the values of a row in eight lanes, in the same order as Eigen. The values after the last multiple of eight are
// summed separately and added.
template <typename Value>
ASC_INLINE float LaneSum(std::int64_t dim, const Value& value) {
  float lanes[8] = {0};
  const std::int64_t whole = dim / 8 * 8;
  for (std::int64_t i = 0; i < whole; i += 8) {
    for (int lane = 0; lane < 8; ++lane) lanes[lane] += value(i + lane);
  }
  float left = 0;
  for (std::int64_t i = whole; i < dim; ++i) left += value(i);
  if (whole == 0) return left;
  for (int lane = 0; lane < 4; ++lane) lanes[lane] += lanes[lane + 4];
  return left + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
}

// Scales a row so that its norm is at most max_norm. Multiplies before dividing, as TensorFlow does.
ASC_INLINE void ClipRow(const float* row, float max_norm, std::int64_t dim, float* clipped) {
  const float squares = LaneSum(dim, [row](std::int64_t i) ASC_INLINED { return row[i] * row[i]; });
  const float length = std::sqrt(squares), divisor = length > max_norm ? length : max_norm;
  for (std::int64_t i = 0; i < dim; ++i) clipped[i] = row[i] * max_norm / divisor;
}

// Computes the gradient of a row from the gradient of the clipped row. `grad` and `out` may be the same array.
ASC_INLINE void ClipGradient(const float* row, float max_norm, std::int64_t dim, const float* grad, float* out) {
  const float squares = LaneSum(dim, [row](std::int64_t i) ASC_INLINED { return row[i] * row[i]; });
  const float length = std::sqrt(squares), divisor = length > max_norm ? length : max_norm;
  float along = 0;
  if (length >= max_norm) {
    along =
        0.5f *
        LaneSum(dim, [=](std::int64_t i) ASC_INLINED { return grad[i] * (-(row[i] * max_norm) / divisor / divisor); }) /
        length;
  }
  for (std::int64_t i = 0; i < dim; ++i) out[i] = grad[i] / divisor * max_norm + along * row[i] + along * row[i];
}

// Returns the number by which the sum of a non-empty bag is divided. The number is 1 for kSum.
inline float DivisorOf(const Bags& bags, std::int64_t bag) {
  const std::int64_t begin = bags.splits[bag], end = bags.splits[bag + 1];
  if (bags.combiner == Combiner::kSum) return 1;
  const bool squares = bags.combiner == Combiner::kSqrtn;
  float sum = static_cast<float>(end - begin);
  if (bags.weights != nullptr) {
    sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += squares ? bags.weights[i] * bags.weights[i] : bags.weights[i];
  }
  return squares ? std::sqrt(sum) : sum;
}

// Computes the gradient of the sum of a non-empty bag from the gradient of the bag.
ASC_INLINE void ScaleGradient(const Bags& bags, std::int64_t bag, std::int64_t dim, const float* grad, float* scaled) {
  if (bags.weights != nullptr) {
    const float divisor = DivisorOf(bags, bag);
    for (std::int64_t i = 0; i < dim; ++i) scaled[i] = grad[i] / divisor;
    return;
  }
  const double ids = static_cast<double>(bags.splits[bag + 1] - bags.splits[bag]);
  const float factor = static_cast<float>(1 / (bags.combiner == Combiner::kMean ? ids : std::sqrt(ids)));
  for (std::int64_t i = 0; i < dim; ++i) scaled[i] = grad[i] * factor;
}

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BAGS_H_
