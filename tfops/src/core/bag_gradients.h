// Sums gradients of bags per distinct row, without a temporary gradient per position.
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

// One of the equal parts of a table's sums, which threads compute in parallel.
struct SumPart {
  std::int64_t number;
  std::int64_t count;
};

// Zeroes the rows of a part of float[rows, dim].
void ZeroPart(const SumPart& part, std::int64_t rows, std::int64_t dim, float* sums);

// sums[places[restore[i]]] += the gradient of position i, for i = 0, 1, ..., n-1 in this order.  Only rows of the part
// are summed; place -1 and missing positions are skipped.
//   places  int32[place_count]   sums  float[valid, dim]
// Returns the first i whose restore index is outside [-1, place_count), or -1.
std::int64_t AddBagGradients(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                             std::int64_t dim, const SumPart& part, float* sums);

// Converts the gradients of clipped rows to gradients of the rows, and adds them to `sums`, for rows of the part.
//   clipped  float[valid, dim]   rows  float[any, dim]   indices  int32[valid], indexes into `rows`
void AddClipped(const float* rows, const std::int32_t* indices, float max_norm, const float* clipped,
                std::int64_t valid, std::int64_t dim, const SumPart& part, float* sums);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BAG_GRADIENTS_H_
