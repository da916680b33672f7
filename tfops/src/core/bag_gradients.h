// Sums the gradients of bags per distinct row, without a temporary gradient for each position.
#ifndef ASCPIPE_CORE_BAG_GRADIENTS_H_
#define ASCPIPE_CORE_BAG_GRADIENTS_H_

#include <cstdint>

#include "core/bags.h"

namespace ascpipe {

// The gradients of one lookup.
struct BagGradient {
  const std::int32_t* restore;  // int32[n], -1 for a missing position
  const float* grads;           // float[dim] of bag b at grads + b * stride; without bags see LookupGradient
  std::int64_t stride;
  std::int64_t n;
  bool has_bags;
  Bags bags;
  std::int64_t side_by_side = 1;  // positions in each row of `grads`; only without bags
};

// Part `number` of a table's sums. The rows are divided into `count` parts of about the same size, so that threads can
// compute the parts in parallel.
struct SumPart {
  std::int64_t number;
  std::int64_t count;
};

// Zeroes the rows of a part. `sums` is float[rows, dim].
void ZeroPart(const SumPart& part, std::int64_t rows, std::int64_t dim, float* sums);

// Adds the gradient of position i to sums[places[restore[i]]], for i = 0, 1, ..., n-1 in this order. AddBagGradients
// changes only rows of the part, and skips positions whose restore index or element of `places` is -1. `places` is
// int32[place_count], and `sums` is float[valid, dim]. Returns the first i whose restore index is outside [-1,
// place_count), or -1 if there is none.
std::int64_t AddBagGradients(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                             std::int64_t dim, const SumPart& part, float* sums);

// Converts the gradients of clipped rows to gradients of the unclipped rows, and adds these gradients to `sums`. Only
// rows of the part are converted. `clipped` is float[valid, dim], and `rows` is float[any, dim]. `indices` is
// int32[valid] and contains indexes into `rows`. Only `max_norm` and `order` of `bags` are used.
void AddClipped(const float* rows, const std::int32_t* indices, const Bags& bags, const float* clipped,
                std::int64_t valid, std::int64_t dim, const SumPart& part, float* sums);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BAG_GRADIENTS_H_
