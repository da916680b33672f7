// The lookup: rows of a batch, in one pass.
#ifndef ASCPIPE_CORE_GATHER_H_
#define ASCPIPE_CORE_GATHER_H_

#include <cstdint>

namespace ascpipe {

struct GatherSource {
  const float* rows;          // float[row_count, dim]
  std::int64_t row_count;
  std::int64_t dim;
  const std::int32_t* slots;  // int32[slot_count], each -1 or in [0, row_count)
  std::int64_t slot_count;
  const float* default_row;   // float[dim], for slot -1
};

// Index of the first slot outside [-1, row_count), or -1.
std::int64_t FirstBadSlot(const GatherSource& source);

// out[i] = rows[slots[restore[i]]] for i in [begin, end); the slots were checked.
//   restore  int32[end]   out  float[end, dim]
// Returns the first i whose restore index is outside [0, slot_count), or -1; rows behind it are not written.
std::int64_t GatherRows(const GatherSource& source, const std::int32_t* restore, std::int64_t begin,
                        std::int64_t end, float* out);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_GATHER_H_
