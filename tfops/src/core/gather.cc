#include "core/gather.h"

#include <algorithm>
#include <cstring>

namespace ascpipe {

namespace {

constexpr std::int64_t kAhead = 24;  // rows asked for before they are copied

// A constant `dim` lets the compiler copy a row by a few vector moves; 0 means any.
template <std::int64_t constant_dim>
std::int64_t Gather(const GatherSource& source, const std::int32_t* restore, std::int64_t begin, std::int64_t end,
                    float* out) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : source.dim;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kAhead < end) {
      const std::uint32_t ahead = static_cast<std::uint32_t>(restore[i + kAhead]);
      if (ahead < static_cast<std::uint64_t>(source.slot_count) && source.slots[ahead] >= 0) {
        __builtin_prefetch(source.rows + source.slots[ahead] * dim);
      }
    }
    const std::uint32_t index = static_cast<std::uint32_t>(restore[i]);  // a negative one becomes huge
    if (index >= static_cast<std::uint64_t>(source.slot_count)) return i;
    const std::int32_t slot = source.slots[index];
    const float* row = slot < 0 ? source.default_row : source.rows + slot * dim;
    std::memcpy(out + i * dim, row, static_cast<std::size_t>(dim) * sizeof(float));
  }
  return -1;
}

}  // namespace

std::int64_t FirstBadSlot(const GatherSource& source) {
  for (std::int64_t i = 0; i < source.slot_count; ++i) {
    if (source.slots[i] < -1 || source.slots[i] >= source.row_count) return i;
  }
  return -1;
}

std::int64_t GatherRows(const GatherSource& source, const std::int32_t* restore, std::int64_t begin,
                        std::int64_t end, float* out) {
  switch (source.dim) {
    case 8:
      return Gather<8>(source, restore, begin, end, out);
    case 16:
      return Gather<16>(source, restore, begin, end, out);
    case 32:
      return Gather<32>(source, restore, begin, end, out);
    case 64:
      return Gather<64>(source, restore, begin, end, out);
    default:
      return Gather<0>(source, restore, begin, end, out);
  }
}

}  // namespace ascpipe
