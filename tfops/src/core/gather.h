// Gathers the rows of a batch in one pass.
#ifndef ASCPIPE_CORE_GATHER_H_
#define ASCPIPE_CORE_GATHER_H_

#include <cstdint>

#include "core/layout.h"

namespace ascpipe {

struct GatherSource {
  const float* rows;  // float[row_count, dim]
  std::int64_t row_count;
  std::int64_t dim;
  const std::int32_t* slots;  // int32[slot_count], see FirstBadSlot
  std::int64_t slot_count;
  const float* default_row;      // float[dim], for slot -1 and for missing positions
  const float* homes = nullptr;  // float[home_count, home_floats], a row begins with its embedding
  std::int64_t home_count = 0;
  std::int64_t home_floats = 0;
};

// Returns the row of a slot. `dim` is source.dim.
template <bool with_homes>
inline const float* RowOf(const GatherSource& source, std::int32_t slot, std::int64_t dim) {
  if (slot >= 0) return source.rows + (slot & ~layout::kSlotFrozen) * dim;
  if (!with_homes || slot == layout::kSlotNone) return source.default_row;
  return source.homes + (layout::kSlotHome - slot) * source.home_floats;
}

// Returns the index of the first invalid slot in [from, slot_count), or -1 if all slots are valid. Valid slots are -1,
// the numbers in [0, row_count) with or without kSlotFrozen, and the codes of home rows.
std::int64_t FirstBadSlot(const GatherSource& source, std::int64_t from = 0);

// Positions and output of one lookup.
struct Gathered {
  const std::int32_t* restore;  // int32[n], -1 for a missing position
  std::int64_t n;
  float* out;           // float[n / side_by_side, stride]: the first side_by_side * dim floats of each row
  std::int64_t stride;  // floats from a row of `out` to the next row
  std::int64_t side_by_side = 1;
};

// Copies rows[slots[restore[i]]] to position i of `out`, for i in [begin, end). A position has `dim` floats, and each
// row of `out` contains side_by_side positions. All slots must be valid. Returns the first i whose restore index is
// outside [-1, slot_count), or -1 if there is none. Positions after the returned i are not written.
std::int64_t GatherRows(const GatherSource& source, const Gathered& gathered, std::int64_t begin, std::int64_t end);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_GATHER_H_
