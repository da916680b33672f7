#include "core/gather.h"

#include <algorithm>
#include <cstring>

#include "core/processors.h"
#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kGatheredAhead = 24;  // prefetch distance in rows

// WithLength explains constant_dim.
template <std::int64_t constant_dim, bool with_homes>
std::int64_t Gather(const GatherSource& source, const Gathered& gathered, std::int64_t begin, std::int64_t end) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : source.dim;
  const std::int32_t* const restore = gathered.restore;
  SideBySide<float> out(gathered.out, dim, gathered.stride, gathered.side_by_side, begin);
  for (std::int64_t i = begin; i < end; ++i, out.Next()) {
    if (i + kGatheredAhead < gathered.n) {
      const std::uint32_t ahead = static_cast<std::uint32_t>(restore[i + kGatheredAhead]);
      if (ahead < static_cast<std::uint64_t>(source.slot_count)) {
        if (with_homes || source.slots[ahead] >= 0)
          PrefetchRead(RowOf<with_homes>(source, source.slots[ahead], dim), dim);
      }
    }
    const std::uint32_t index = static_cast<std::uint32_t>(restore[i]);  // negative values become large
    if (index >= static_cast<std::uint64_t>(source.slot_count)) {
      if (restore[i] != -1) return i;
      std::memcpy(out.row(), source.default_row, static_cast<std::size_t>(dim) * sizeof(float));
      continue;
    }
    const float* row = RowOf<with_homes>(source, source.slots[index], dim);
    std::memcpy(out.row(), row, static_cast<std::size_t>(dim) * sizeof(float));
  }
  return -1;
}

template <bool with_homes>
std::int64_t GatherAny(const GatherSource& source, const Gathered& gathered, std::int64_t begin, std::int64_t end) {
  return WithLength(source.dim,
                    [&](auto length) ASC_INLINED { return Gather<length, with_homes>(source, gathered, begin, end); });
}

}  // namespace

std::int64_t FirstBadSlot(const GatherSource& source, std::int64_t from) {
  const std::int64_t lowest = layout::kSlotHome - (source.home_count - 1);  // -1 without home rows
  for (std::int64_t i = from; i < source.slot_count; ++i) {
    const std::int32_t slot = source.slots[i];
    if (slot >= 0 && slot < source.row_count) continue;
    const std::int32_t row = slot < 0 ? slot : slot & ~layout::kSlotFrozen;
    if (row < lowest || row >= source.row_count) return i;
  }
  return -1;
}

std::int64_t GatherRows(const GatherSource& source, const Gathered& gathered, std::int64_t begin, std::int64_t end) {
  return source.home_count > 0 ? GatherAny<true>(source, gathered, begin, end)
                               : GatherAny<false>(source, gathered, begin, end);
}

}  // namespace ascpipe
