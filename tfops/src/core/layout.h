// Computations on the shared-memory layout. Structs, states and constants are generated from ascpipe/layout.
//
// Access words in shared memory only with the functions of core/atomics.h.
#ifndef ASCPIPE_CORE_LAYOUT_H_
#define ASCPIPE_CORE_LAYOUT_H_

#include "core/layout.gen.h"

namespace ascpipe {
namespace layout {

// Returns the smallest multiple of `unit` (a power of two) that is at least `size`.
constexpr std::int64_t Align(std::int64_t size, std::int64_t unit = kCacheLine) {
  return (size + unit - 1) & ~(unit - 1);
}

// Computes the layout of one part. The specs and arrays of the part start at `offset` in the frame. Returns the end
// offset.
inline std::int64_t PlacePart(Part* part, std::int64_t id_count, std::int64_t spec_count, std::int64_t offset) {
  *part = Part();
  part->id_count = id_count;
  part->spec_count = spec_count;
  part->specs = offset;
  offset += spec_count * static_cast<std::int64_t>(sizeof(Spec));
  for (const PartArray& array : kPartArrays) {
    part->*array.field = offset;
    offset += Align(array.bytes_per_id * id_count);
  }
  return offset;
}

}  // namespace layout
}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LAYOUT_H_
