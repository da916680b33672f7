#include "core/segment_sum.h"

#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kSummedAhead = 16;

template <std::int64_t constant_dim>
ASC_INLINE std::int64_t Add(const std::int32_t* places, std::int64_t place_count, const LookupGradient& lookup,
                            std::int64_t any_dim, float* sums) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : any_dim, n = lookup.n;
  const std::int32_t* const restore = lookup.restore;
  SideBySide<const float> grads(lookup.grads, dim, lookup.stride, lookup.side_by_side, 0);
  for (std::int64_t i = 0; i < n; ++i, grads.Next()) {
    if (i + kSummedAhead < n) {
      const std::uint32_t ahead = static_cast<std::uint32_t>(restore[i + kSummedAhead]);
      if (ahead < static_cast<std::uint64_t>(place_count) && places[ahead] >= 0) {
        PrefetchRow(sums + places[ahead] * dim, dim);
      }
    }
    const std::uint32_t index = static_cast<std::uint32_t>(restore[i]);
    if (index >= static_cast<std::uint64_t>(place_count)) {
      if (restore[i] == -1) continue;
      return i;
    }
    if (places[index] < 0) continue;
    AddRow(sums + places[index] * dim, grads.row(), dim);
  }
  return -1;
}

}  // namespace

std::int64_t NumberValidSlots(const std::int32_t* slots, std::int64_t n, std::int32_t* places, std::int32_t* indices) {
  std::int32_t valid = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    places[i] = IsTrained(slots[i]) ? valid : -1;
    if (IsTrained(slots[i])) indices[valid++] = slots[i];
  }
  return valid;
}

ASC_FOR_EACH_PROCESSOR
std::int64_t AddGradients(const std::int32_t* places, std::int64_t place_count, const LookupGradient& lookup,
                          std::int64_t dim, float* sums) {
  return WithLength(dim, [&](auto length) ASC_INLINED { return Add<length>(places, place_count, lookup, dim, sums); });
}

}  // namespace ascpipe
