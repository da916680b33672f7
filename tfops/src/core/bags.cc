#include "core/bags.h"

#include <algorithm>
#include <vector>

#include "core/row_copy.h"
#include "core/segment_sum.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kBagRowsAhead = 24;  // prefetch distance in rows
constexpr std::int64_t kBagGroup = 8;       // rows without weights are summed in groups

// Function object that returns the row of a position.
template <std::int64_t constant_dim, bool with_homes>
class RowReader {
 public:
  RowReader(const BagRows& rows, std::int64_t positions)
      : rows_(rows), dim_(constant_dim != 0 ? constant_dim : rows.source.dim), positions_(positions) {}

  ASC_INLINED void Prefetch(std::int64_t position) const {
    if (rows_.restore == nullptr || position + kBagRowsAhead >= positions_) return;
    const std::uint32_t ahead = static_cast<std::uint32_t>(rows_.restore[position + kBagRowsAhead]);
    if (ahead < static_cast<std::uint64_t>(rows_.source.slot_count)) {
      PrefetchRead(RowOf<with_homes>(rows_.source, rows_.source.slots[ahead], dim_), dim_);
    }
  }

  // Returns null if the restore index is out of range.
  ASC_INLINED const float* operator()(std::int64_t position) const {
    if (rows_.restore == nullptr) return rows_.source.rows + position * dim_;
    const std::uint32_t index = static_cast<std::uint32_t>(rows_.restore[position]);
    if (index < static_cast<std::uint64_t>(rows_.source.slot_count)) {
      return RowOf<with_homes>(rows_.source, rows_.source.slots[index], dim_);
    }
    return rows_.restore[position] == -1 ? rows_.source.default_row : nullptr;
  }

 private:
  const BagRows& rows_;
  const std::int64_t dim_, positions_;
};

ASC_INLINE void Zero(float* row, std::int64_t dim) { std::fill(row, row + dim, 0.0f); }

// Sets `sum` to weight * row if `first` is true, otherwise adds weight * row to `sum`. The product is rounded before
// the addition.
template <bool first>
ASC_INLINE void AddWeighted(float* __restrict__ sum, const float* __restrict__ row, float weight, std::int64_t dim) {
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < dim; ++i) sum[i] = first ? row[i] * weight : sum[i] + row[i] * weight;
}

ASC_INLINE void Copy(float* __restrict__ to, const float* __restrict__ from, std::int64_t dim) {
#pragma GCC unroll 1
  for (std::int64_t i = 0; i < dim; ++i) to[i] = from[i];
}

// Sums the rows of one bag.
template <std::int64_t constant_dim, bool with_homes>
class BagSum {
 public:
  BagSum(const BagRows& rows, const Bags& bags)
      : row_(rows, bags.positions),
        bags_(bags),
        dim_(constant_dim != 0 ? constant_dim : rows.source.dim),
        group_(static_cast<std::size_t>(dim_)),
        clipped_(static_cast<std::size_t>(dim_)),
        four_(bags.order == SumOrder::kTensorFlow2 && bags.weights != nullptr ? static_cast<std::size_t>(4 * dim_)
                                                                              : 0) {}

  // Returns the row of a position, clipped if max_norm is set. The next call of Row may overwrite the returned row.
  ASC_INLINED const float* Row(std::int64_t position) {
    const float* const row = row_(position);
    if (bags_.max_norm == 0 || row == nullptr) return row;
    ClipRow(row, bags_, dim_, clipped_.data());
    return clipped_.data();
  }

  ASC_INLINED std::int64_t Add(std::int64_t bag, float* sum) {
    if (bags_.weights == nullptr) return AddGroups(bag, sum);
    const bool is_four = bags_.order == SumOrder::kTensorFlow2 && dim_ >= kEigenPacket &&
                         bags_.splits[bag + 1] - bags_.splits[bag] >= kFourSumsFrom;
    return is_four ? AddInFour(bag, sum) : AddOneByOne(bag, sum);
  }

 private:
  ASC_INLINED std::int64_t AddOneByOne(std::int64_t bag, float* sum) {
    const std::int64_t begin = bags_.splits[bag], end = bags_.splits[bag + 1];
    for (std::int64_t i = begin; i < end; ++i) {
      row_.Prefetch(i);
      const float* const row = Row(i);
      if (row == nullptr) return i;
      if (i == begin) {
        AddWeighted<true>(sum, row, bags_.weights[i], dim_);
      } else {
        AddWeighted<false>(sum, row, bags_.weights[i], dim_);
      }
    }
    return -1;
  }

  // Sums the rows of a bag in four partial sums: row i belongs to partial sum i % 4. Up to three remaining rows are
  // added to the total of the partial sums. Up to seven remaining columns are summed without partial sums.
  ASC_INLINED std::int64_t AddInFour(std::int64_t bag, float* sum) {
    const std::int64_t begin = bags_.splits[bag], end = bags_.splits[bag + 1], until = begin + (end - begin) / 4 * 4;
    const std::int64_t whole = dim_ / kEigenPacket * kEigenPacket;
    std::fill(four_.begin(), four_.end(), 0.0f);
    float* const first = four_.data();
    for (std::int64_t i = begin; i < end; ++i) {
      if (i == until) AddPartialSums(whole);
      row_.Prefetch(i);
      const float* const row = Row(i);
      if (row == nullptr) return i;
      AddWeighted<false>(i < until ? first + (i - begin) % 4 * dim_ : first, row, bags_.weights[i], whole);
      AddWeighted<false>(first + whole, row + whole, bags_.weights[i], dim_ - whole);
    }
    if (until == end) AddPartialSums(whole);
    Copy(sum, first, dim_);
    return -1;
  }

  ASC_INLINED void AddPartialSums(std::int64_t columns) {
    for (int partial = 1; partial < 4; ++partial) AddRow(four_.data(), four_.data() + partial * dim_, columns);
  }

  // Sums the rows of a bag in groups of eight. The first group has the remaining two to seven rows. If no row or one
  // row remains, the first group has eight or nine rows instead. A bag with one row has one group of one row.
  ASC_INLINED std::int64_t AddGroups(std::int64_t bag, float* sum) {
    const std::int64_t end = bags_.splits[bag + 1];
    std::int64_t i = bags_.splits[bag];
    const std::int64_t over = (end - i) % kBagGroup;
    std::int64_t until = std::min(end, i + (over > 1 ? over : kBagGroup + over));
    float* const first = sum;
    for (float* into = first; i < end; until = i + kBagGroup, into = group_.data()) {
      for (const std::int64_t from = i; i < until; ++i) {
        row_.Prefetch(i);
        const float* const row = Row(i);
        if (row == nullptr) return i;
        if (i == from) {
          Copy(into, row, dim_);
        } else {
          AddRow(into, row, dim_);
        }
      }
      if (into != first) AddRow(sum, into, dim_);
    }
    return -1;
  }

  const RowReader<constant_dim, with_homes> row_;
  const Bags& bags_;
  const std::int64_t dim_;
  std::vector<float> group_, clipped_, four_;  // four_: the partial sums of AddInFour, float[4, dim]
};

template <std::int64_t constant_dim, bool with_homes>
ASC_INLINE std::int64_t Combine(const BagRows& rows, const Bags& bags, std::int64_t begin, std::int64_t end, float* out,
                                std::int64_t stride) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : rows.source.dim;
  BagSum<constant_dim, with_homes> sums(rows, bags);
  for (std::int64_t bag = begin; bag < end; ++bag) {
    float* const sum = out + bag * stride;
    if (bags.splits[bag] == bags.splits[bag + 1]) {
      Zero(sum, dim);
      continue;
    }
    const std::int64_t bad = sums.Add(bag, sum);
    if (bad >= 0) return bad;
    DivideSum(bags, bag, dim, sum);
  }
  return -1;
}

// Returns the gradient of a bag's divisor. All positions of a bag have the same gradient of the divisor.
ASC_INLINE float GradientOfDivisor(SumOrder order, const float* grad, const float* sum, float divisor,
                                   std::int64_t dim) {
  return LaneSum(order, dim, [=](std::int64_t i) ASC_INLINED { return grad[i] * (-sum[i] / divisor / divisor); });
}

template <std::int64_t constant_dim, bool with_homes>
ASC_INLINE std::int64_t OfWeights(const BagRows& rows, const Bags& bags, const float* grad, std::int64_t begin,
                                  std::int64_t end, float* out) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : rows.source.dim;
  BagSum<constant_dim, with_homes> sums(rows, bags);
  std::vector<float> room(static_cast<std::size_t>(2 * dim));
  float *const scaled = room.data(), *const sum = scaled + dim;
  for (std::int64_t bag = begin; bag < end; ++bag) {
    const std::int64_t first = bags.splits[bag], last = bags.splits[bag + 1];
    if (first == last) continue;
    const float* given = grad + bag * dim;
    float common = 0;
    if (bags.combiner != Combiner::kSum) {
      const std::int64_t bad = sums.Add(bag, sum);
      if (bad >= 0) return bad;
      const float divisor = DivisorOf(bags, bag);
      common = GradientOfDivisor(bags.order, given, sum, divisor, dim);
      if (bags.combiner == Combiner::kSqrtn) common = 0.5f * common / divisor;
      ScaleGradient(bags, bag, dim, given, scaled);
      given = scaled;
    }
    for (std::int64_t i = first; i < last; ++i) {
      const float* const row = sums.Row(i);
      if (row == nullptr) return i;
      out[i] = LaneSum(bags.order, dim, [=](std::int64_t c) ASC_INLINED { return given[c] * row[c]; });
      if (bags.combiner == Combiner::kMean) out[i] += common;
      if (bags.combiner == Combiner::kSqrtn) out[i] += common * 2 * bags.weights[i];
    }
  }
  return -1;
}

}  // namespace

std::int64_t FirstBadSplit(const std::int64_t* splits, std::int64_t count, std::int64_t positions) {
  if (splits[0] != 0) return 0;
  for (std::int64_t bag = 0; bag < count; ++bag) {
    if (splits[bag + 1] < splits[bag]) return bag + 1;
  }
  return splits[count] == positions ? -1 : count;
}

ASC_FOR_EACH_PROCESSOR
std::int64_t CombineBags(const BagRows& rows, const Bags& bags, std::int64_t begin, std::int64_t end, float* out,
                         std::int64_t stride) {
  return WithLength(rows.source.dim, [&](auto length) ASC_INLINED {
    return rows.source.home_count > 0 ? Combine<length, true>(rows, bags, begin, end, out, stride)
                                      : Combine<length, false>(rows, bags, begin, end, out, stride);
  });
}

ASC_FOR_EACH_PROCESSOR
std::int64_t WeightGradients(const BagRows& rows, const Bags& bags, const float* grad, std::int64_t begin,
                             std::int64_t end, float* out) {
  return WithLength(rows.source.dim, [&](auto length) ASC_INLINED {
    return rows.source.home_count > 0 ? OfWeights<length, true>(rows, bags, grad, begin, end, out)
                                      : OfWeights<length, false>(rows, bags, grad, begin, end, out);
  });
}

void RowGradients(const float* rows, const Bags& bags, const float* grad, std::int64_t dim, std::int64_t begin,
                  std::int64_t end, float* out) {
  std::vector<float> scaled(static_cast<std::size_t>(dim));
  for (std::int64_t bag = begin; bag < end; ++bag) {
    const float* given = grad + bag * dim;
    if (bags.combiner != Combiner::kSum && bags.splits[bag] < bags.splits[bag + 1]) {
      ScaleGradient(bags, bag, dim, given, scaled.data());
      given = scaled.data();
    }
    for (std::int64_t i = bags.splits[bag]; i < bags.splits[bag + 1]; ++i) {
      float* const to = out + i * dim;
      if (bags.weights == nullptr) {
        Copy(to, given, dim);
      } else {
        AddWeighted<true>(to, given, bags.weights[i], dim);
      }
      if (bags.max_norm != 0) ClipGradient(rows + i * dim, bags, dim, to, to);
    }
  }
}

}  // namespace ascpipe
