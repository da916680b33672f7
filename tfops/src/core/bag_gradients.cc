#include "core/bag_gradients.h"

#include <algorithm>
#include <vector>

#include "core/row_copy.h"
#include "core/segment_sum.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kBagGradientsAhead = 16;
constexpr std::int64_t kBagGradientGroup = 4;  // adjacent rows, which may share a cache line, are in one part

template <bool whole>
ASC_INLINE bool IsIn(const SumPart& part, std::int32_t place) {
  return whole ? place >= 0 : place >= 0 && place / kBagGradientGroup % part.count == part.number;
}

// Adds the gradient `row` of a bag to the sums of the bag's rows, once for each position in [begin, end). If `weighted`
// is true, multiplies `row` by the weight of the position. `row` is float[dim].
template <std::int64_t constant_dim, bool whole, bool weighted>
ASC_INLINE std::int64_t AddPositions(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                                     std::int64_t any_dim, const SumPart& part, std::int64_t begin, std::int64_t end,
                                     const float* __restrict__ row, float* sums) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : any_dim;
  const std::int32_t* const restore = lookup.restore;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kBagGradientsAhead < lookup.n) {
      const std::uint32_t ahead = static_cast<std::uint32_t>(restore[i + kBagGradientsAhead]);
      if (ahead < static_cast<std::uint64_t>(place_count) && IsIn<whole>(part, places[ahead])) {
        PrefetchRow(sums + places[ahead] * dim, dim);
      }
    }
    const std::uint32_t index = static_cast<std::uint32_t>(restore[i]);
    if (index >= static_cast<std::uint64_t>(place_count)) {
      if (restore[i] == -1) continue;
      return i;
    }
    if (!IsIn<whole>(part, places[index])) continue;
    float* const sum = sums + places[index] * dim;
    if (!weighted) {
      AddRow(sum, row, dim);
      continue;
    }
    const float weight = lookup.bags.weights[i];
    float* __restrict__ const to = sum;
#pragma GCC unroll 1
    for (std::int64_t c = 0; c < dim; ++c) to[c] += row[c] * weight;
  }
  return -1;
}

template <std::int64_t constant_dim, bool whole, bool weighted>
ASC_INLINE std::int64_t AddBags(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                                std::int64_t any_dim, const SumPart& part, float* sums) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : any_dim;
  const Bags& bags = lookup.bags;
  std::vector<float> scaled(static_cast<std::size_t>(dim));
  for (std::int64_t bag = 0; bag < bags.count; ++bag) {
    const std::int64_t begin = bags.splits[bag], end = bags.splits[bag + 1];
    if (begin == end) continue;
    const float* row = lookup.grads + bag * lookup.stride;
    if (bags.combiner != Combiner::kSum) {
      ScaleGradient(bags, bag, dim, row, scaled.data());
      row = scaled.data();
    }
    const std::int64_t bad =
        AddPositions<constant_dim, whole, weighted>(places, place_count, lookup, dim, part, begin, end, row, sums);
    if (bad >= 0) return bad;
  }
  return -1;
}

template <std::int64_t constant_dim, bool whole>
ASC_INLINE std::int64_t Add(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                            std::int64_t dim, const SumPart& part, float* sums) {
  if (lookup.has_bags) {
    return lookup.bags.weights != nullptr
               ? AddBags<constant_dim, whole, true>(places, place_count, lookup, dim, part, sums)
               : AddBags<constant_dim, whole, false>(places, place_count, lookup, dim, part, sums);
  }
  SideBySide<const float> grads(lookup.grads, dim, lookup.stride, lookup.side_by_side, 0);
  for (std::int64_t i = 0; i < lookup.n; ++i, grads.Next()) {
    const std::int64_t bad =
        AddPositions<constant_dim, whole, false>(places, place_count, lookup, dim, part, i, i + 1, grads.row(), sums);
    if (bad >= 0) return bad;
  }
  return -1;
}

// Calls work(begin, end) for each group of adjacent rows of a part.
template <typename Work>
ASC_INLINE void EachGroup(const SumPart& part, std::int64_t rows, const Work& work) {
  if (part.count == 1) return work(std::int64_t{0}, rows);
  for (std::int64_t first = part.number * kBagGradientGroup; first < rows; first += part.count * kBagGradientGroup) {
    work(first, std::min(rows, first + kBagGradientGroup));
  }
}

}  // namespace

void ZeroPart(const SumPart& part, std::int64_t rows, std::int64_t dim, float* sums) {
  EachGroup(part, rows,
            [=](std::int64_t begin, std::int64_t end) { std::fill(sums + begin * dim, sums + end * dim, 0.0f); });
}

ASC_FOR_EACH_PROCESSOR
std::int64_t AddBagGradients(const std::int32_t* places, std::int64_t place_count, const BagGradient& lookup,
                             std::int64_t dim, const SumPart& part, float* sums) {
  return WithLength(dim, [&](auto length) ASC_INLINED {
    return part.count == 1 ? Add<length, true>(places, place_count, lookup, dim, part, sums)
                           : Add<length, false>(places, place_count, lookup, dim, part, sums);
  });
}

void AddClipped(const float* rows, const std::int32_t* indices, const Bags& bags, const float* clipped,
                std::int64_t valid, std::int64_t dim, const SumPart& part, float* sums) {
  std::vector<float> gradient(static_cast<std::size_t>(dim));
  EachGroup(part, valid, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ClipGradient(rows + indices[i] * dim, bags, dim, clipped + i * dim, gradient.data());
      AddRow(sums + i * dim, gradient.data(), dim);
    }
  });
}

}  // namespace ascpipe
