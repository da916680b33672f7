// Combines the rows of each bag of ids into one row, and computes the gradients. Results are bit-identical to
// TensorFlow's results, because sums are computed in the order of TensorFlow's embedding_lookup_sparse. TensorFlow 1.15
// and 2.15 contain different versions of Eigen, which sum in different orders.
#ifndef ASCPIPE_CORE_BAGS_H_
#define ASCPIPE_CORE_BAGS_H_

#include <cmath>
#include <cstdint>

#include "core/gather.h"
#include "core/processors.h"

namespace ascpipe {

enum class Combiner { kSum, kMean, kSqrtn };

// Version of TensorFlow whose order of floating-point operations is used.
enum class SumOrder { kTensorFlow1, kTensorFlow2 };

constexpr std::int64_t kEigenPacket = 8;       // floats that Eigen processes together
constexpr std::int64_t kFourSumsFrom = 16;     // rows from which kTensorFlow2 sums rows in four partial sums
constexpr std::int64_t kMultipliedBelow = 10;  // ids below which kTensorFlow2 multiplies by 1 / divisor

struct Bags {
  const std::int64_t* splits;  // int64[count + 1]: bag b has the positions [splits[b], splits[b + 1])
  std::int64_t count;
  std::int64_t positions;
  const float* weights;  // float[positions], or null: 1 each
  Combiner combiner;
  float max_norm;  // rows are clipped to this norm first; 0: not clipped
  SumOrder order;
};

// Maps the positions of bags to rows.
struct BagRows {
  GatherSource source;
  const std::int32_t* restore;  // int32[positions], -1 for the default row; null: row i for position i
};

// Returns the index of the first invalid split, or -1 if all splits are valid. Valid splits ascend from 0 to
// `positions`.
std::int64_t FirstBadSplit(const std::int64_t* splits, std::int64_t count, std::int64_t positions);

// Writes the combined row of bag b to out[b * stride], for b in [begin, end). A combined row is float[dim]. The row of
// an empty bag contains zeros. Returns the first position whose restore index is outside [-1, slot_count), or -1 if
// there is none.
std::int64_t CombineBags(const BagRows& rows, const Bags& bags, std::int64_t begin, std::int64_t end, float* out,
                         std::int64_t stride);

// Writes the gradient of the weight of position i to out[i], for all positions of the bags [begin, end). `grad` is
// float[count, dim]. Returns the first position whose restore index is invalid, or -1 if there is none.
std::int64_t WeightGradients(const BagRows& rows, const Bags& bags, const float* grad, std::int64_t begin,
                             std::int64_t end, float* out);

// Writes the gradient of the row of position i to out[i], for all positions of the bags [begin, end). `rows` is
// float[positions, dim]. `rows` is read only if max_norm is set.
void RowGradients(const float* rows, const Bags& bags, const float* grad, std::int64_t dim, std::int64_t begin,
                  std::int64_t end, float* out);

// Each of the functions below processes one bag or one row.

// Sums the values of a row in eight lanes, in the same order as Eigen. The last values, up to seven, are summed
// separately, and their sum is added last. With kTensorFlow2, groups of 32 values are first summed in four sets of
// eight lanes.
template <typename Value>
ASC_INLINE float LaneSum(SumOrder order, std::int64_t dim, const Value& value) {
  float lanes[kEigenPacket] = {0};
  const std::int64_t whole = dim / kEigenPacket * kEigenPacket;
  std::int64_t i = 0;
  if (order == SumOrder::kTensorFlow2 && dim >= 4 * kEigenPacket) {
    float others[3][kEigenPacket] = {{0}};
    for (; i + 4 * kEigenPacket <= whole; i += 4 * kEigenPacket) {
      for (int lane = 0; lane < kEigenPacket; ++lane) lanes[lane] += value(i + lane);
      for (int set = 0; set < 3; ++set) {
        for (int lane = 0; lane < kEigenPacket; ++lane) others[set][lane] += value(i + (set + 1) * kEigenPacket + lane);
      }
    }
    for (const float(&set)[kEigenPacket] : others) {
      for (int lane = 0; lane < kEigenPacket; ++lane) lanes[lane] += set[lane];
    }
  }
  for (; i < whole; i += kEigenPacket) {
    for (int lane = 0; lane < kEigenPacket; ++lane) lanes[lane] += value(i + lane);
  }
  float left = 0;
  for (; i < dim; ++i) left += value(i);
  if (whole == 0) return left;
  for (int lane = 0; lane < 4; ++lane) lanes[lane] += lanes[lane + 4];
  return left + ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
}

// Scales a row so that its norm is at most bags.max_norm. Multiplies before dividing, as TensorFlow does.
ASC_INLINE void ClipRow(const float* row, const Bags& bags, std::int64_t dim, float* clipped) {
  const float max_norm = bags.max_norm;
  const float squares = LaneSum(bags.order, dim, [row](std::int64_t i) ASC_INLINED { return row[i] * row[i]; });
  const float length = std::sqrt(squares), divisor = length > max_norm ? length : max_norm;
  for (std::int64_t i = 0; i < dim; ++i) clipped[i] = row[i] * max_norm / divisor;
}

// Computes the gradient of a row from the gradient of the clipped row. `grad` and `out` may be the same array.
ASC_INLINE void ClipGradient(const float* row, const Bags& bags, std::int64_t dim, const float* grad, float* out) {
  const float max_norm = bags.max_norm;
  const float squares = LaneSum(bags.order, dim, [row](std::int64_t i) ASC_INLINED { return row[i] * row[i]; });
  const float length = std::sqrt(squares), divisor = length > max_norm ? length : max_norm;
  float along = 0;
  if (length >= max_norm) {
    along = 0.5f *
            LaneSum(bags.order, dim,
                    [=](std::int64_t i) ASC_INLINED { return grad[i] * (-(row[i] * max_norm) / divisor / divisor); }) /
            length;
  }
  for (std::int64_t i = 0; i < dim; ++i) out[i] = grad[i] / divisor * max_norm + along * row[i] + along * row[i];
}

// Returns the number by which the sum of a non-empty bag is divided: 1 for kSum.
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

// Divides the sum of a non-empty bag by the bag's divisor.
ASC_INLINE void DivideSum(const Bags& bags, std::int64_t bag, std::int64_t dim, float* sum) {
  if (bags.combiner == Combiner::kSum) return;
  const float divisor = DivisorOf(bags, bag);
  const std::int64_t ids = bags.splits[bag + 1] - bags.splits[bag];
  if (bags.order == SumOrder::kTensorFlow2 && bags.weights == nullptr && ids < kMultipliedBelow) {
    const float factor = 1 / divisor;
    for (std::int64_t i = 0; i < dim; ++i) sum[i] *= factor;
  } else {
    for (std::int64_t i = 0; i < dim; ++i) sum[i] /= divisor;
  }
}

// Computes the gradient of a non-empty bag's sum from the gradient of the bag's combined row.
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
