// Sums the gradients of a lookup per distinct id, in the order of the input.
#ifndef ASCPIPE_CORE_SEGMENT_SUM_H_
#define ASCPIPE_CORE_SEGMENT_SUM_H_

#include <cstdint>

#include "core/layout.h"
#include "core/processors.h"

namespace ascpipe {

// Returns true if gradients may change the row of a slot. Returns false for frozen slots, codes of home rows, and
// kSlotNone.
inline bool IsTrained(std::int32_t slot) {
  return static_cast<std::uint32_t>(slot) < static_cast<std::uint32_t>(layout::kSlotFrozen);
}

// Assigns the numbers 0, 1, 2, ... to the slots of trainable rows, and returns how many slots have a number. `slots`,
// `places` and `indices` are int32[n]. `places` receives the number of each slot, or -1 if the row is not trainable.
// `indices` receives the slots of trainable rows.
std::int64_t NumberValidSlots(const std::int32_t* slots, std::int64_t n, std::int32_t* places, std::int32_t* indices);

// Gradients of one lookup.
struct LookupGradient {
  const std::int32_t* restore;  // int32[n], -1 for a missing position
  const float* grads;           // float[n / side_by_side, stride]: the first side_by_side * dim floats of each row
  std::int64_t n;
  std::int64_t stride;  // floats from a row of `grads` to the next row
  std::int64_t side_by_side = 1;
};

// Adds `grad` to `sum`, element by element.
ASC_INLINE void AddRow(float* __restrict__ sum, const float* __restrict__ grad, std::int64_t dim) {
#pragma GCC unroll 1  // GCC does not vectorize a loop that it has unrolled
  for (std::int64_t column = 0; column < dim; ++column) sum[column] += grad[column];
}

// Adds row i of the gradients to sums[places[restore[i]]], for i = 0, 1, ..., n-1 in this order. Skips row i if
// restore[i] is -1 (missing position), or if places[restore[i]] is -1 (row not trainable). `places` is
// int32[place_count]. `sums` is float[valid, dim], where `valid` is the result of NumberValidSlots. Returns the first i
// whose restore index is outside [-1, place_count), or -1 if there is none.
//
// The sums are bit-identical to the results of unsorted_segment_sum, because AddGradients runs on one thread in input
// order.
std::int64_t AddGradients(const std::int32_t* places, std::int64_t place_count, const LookupGradient& lookup,
                          std::int64_t dim, float* sums);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_SEGMENT_SUM_H_
