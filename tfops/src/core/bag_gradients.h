// The gradients of bags, summed per distinct row without a gradient for each position in between.
#ifndef ASCPIPE_CORE_BAG_GRADIENTS_H_
#define ASCPIPE_CORE_BAG_GRADIENTS_H_

#include <cstdint>

#include "core/bags.h"

namespace ascpipe {

// The gradients of one lookup.
struct BagGradient {
  const std::int32_t* restore;  // int32[n], -1 for a missing position
  const float* grads;           // of bag b, float[dim] at grads + b * stride; without bags as of LookupGradient
  std::int64_t stride;
  std::int64_t n;
  bool has_bags;
  Bags bags;
  std::int64_t side_by_side = 1;  // positions in each row of `grads`; only without bags
};

// One of the equal parts of the sums of a table, which threads make at the same time.
struct SumPart {
  std::int64_t number;
  std::int64_t count;
};

// Zeroes the rows of a part of float[rows, dim].
void ZeroPart(const SumPart& part, std::int64_t rows, std::int64_t dim, float* sums);

// sums[places[restore[i]]] += the gradient of position i, for i = 0, 1, ..., n-1 in this order, of rows of the part;
// place -1 and missing positions are skipped.
//   places  int32[place_count]   sums  float[valid, dim]
// Returns the first i whose restore index is outside [-1, place_count), or -1.
std::int64_t AddBagGradients(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                             std::int64_t dim, const SumPart& part, float* sums);

// clipped: sums of float[valid, dim] for rows of the part, of rows that were clipped; they are added to `sums` as the
// gradients of the rows themselves.  rows: float[any, dim]; indices: int32[valid], which of these.
void AddClipped(const float* rows, const std::int32_t* indices, float max_norm, const float* clipped,
                std::int64_t valid, std::int64_t dim, const SumPart& part, float* sums);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_BAG_GRADIENTS_H_
