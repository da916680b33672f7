// Random bags, and plain loops that combine them and compute their gradients. The loops sum in the order that the
// headers of the product describe.
#ifndef ASCPIPE_TESTS_CPP_PLAIN_BAGS_H_
#define ASCPIPE_TESTS_CPP_PLAIN_BAGS_H_

#include <cmath>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "core/bag_gradients.h"
#include "core/bags.h"

namespace plain_bags {

using namespace ascpipe;
using Floats = std::vector<float>;

inline int Random(int limit) {
  static unsigned state = 2468;
  state = state * 1664525u + 1013904223u;
  return static_cast<int>((state >> 8) % static_cast<unsigned>(limit));
}
inline float RandomFloat() { return static_cast<float>(Random(2000001) - 1000000) / 654321.0f; }
inline Floats RandomFloats(std::int64_t count) {
  Floats made(static_cast<std::size_t>(count));
  for (float& value : made) value = RandomFloat();
  return made;
}

const std::int64_t kDims[] = {1, 8, 10, 16, 74};
const SumOrder kOrders[] = {SumOrder::kTensorFlow1, SumOrder::kTensorFlow2};
const Combiner kCombiners[] = {Combiner::kSum, Combiner::kMean, Combiner::kSqrtn};
constexpr std::int64_t kRows = 50, kHomes = 20, kHomeExtra = 3, kSlots = 40;

// Bags of random ids.  The bags have every size up to 27, and there are empty bags at both ends and in between.
struct Given {
  explicit Given(std::int64_t given_dim) : dim(given_dim) {
    splits = {0, 0};
    for (int bag = 0; bag < 60; ++bag) splits.push_back(splits.back() + (bag % 7 == 3 ? 0 : bag % 28));
    splits.push_back(splits.back());
    count = static_cast<std::int64_t>(splits.size()) - 1;
    positions = splits.back();
    table = RandomFloats(kRows * dim);
    homes = RandomFloats(kHomes * (dim + kHomeExtra));
    default_row = RandomFloats(dim);
    for (std::int64_t i = 0; i < kSlots; ++i) {
      const std::int32_t slot = Random(kRows);
      const int what = Random(6);
      slots.push_back(what == 0   ? layout::kSlotNone
                      : what == 1 ? layout::kSlotHome - Random(kHomes)
                      : what == 2 ? slot | layout::kSlotFrozen
                                  : slot);
    }
    for (std::int64_t i = 0; i < positions; ++i) {
      restore.push_back(Random(9) == 0 ? -1 : Random(kSlots));
      weights.push_back(0.1f + 0.01f * static_cast<float>(Random(300)));
    }
    grads = RandomFloats(count * dim);
    for (const std::int32_t index : restore) {
      const float* row = default_row.data();
      if (index >= 0) {
        const std::int32_t slot = slots[index];
        if (slot >= 0) row = &table[(slot & ~layout::kSlotFrozen) * dim];
        if (slot <= layout::kSlotHome) row = &homes[(layout::kSlotHome - slot) * (dim + kHomeExtra)];
      }
      rows.insert(rows.end(), row, row + dim);
    }
  }

  // Returns rows that are in a table and in home rows.
  BagRows InTable() const {
    return {
        {table.data(), kRows, dim, slots.data(), kSlots, default_row.data(), homes.data(), kHomes, dim + kHomeExtra},
        restore.data()};
  }
  // Returns the same rows in an array with one row for each position.
  BagRows InPlace() const { return {{rows.data(), positions, dim, nullptr, 0, nullptr}, nullptr}; }

  std::int64_t dim, count, positions;
  std::vector<std::int64_t> splits;
  std::vector<std::int32_t> slots, restore;
  Floats table, homes, default_row, weights, grads, rows;
};

inline bool Same(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Copies rows of `dim` floats to the first columns of wider rows.  The other columns contain 7.
inline Floats Spread(const Floats& rows, std::int64_t dim, std::int64_t stride) {
  Floats made(rows.size() / dim * stride, 7.0f);
  for (std::size_t i = 0; i < rows.size(); ++i) made[i / dim * stride + i % dim] = rows[i];
  return made;
}

// Sums in eight lanes.  TensorFlow 2 sums every multiple of 32 values in 32 lanes, which are then added to eight.
inline float PlainLaneSum(SumOrder order, const Floats& values) {
  const std::size_t over = values.size() % 8;
  const std::size_t wide = order == SumOrder::kTensorFlow2 ? values.size() / 32 * 32 : 0;
  float many[32] = {0}, lanes[8] = {0}, left = 0;
  for (std::size_t i = 0; i < wide; ++i) many[i % 32] += values[i];
  for (std::size_t i = 0; i < 32; ++i) lanes[i % 8] += many[i];
  for (std::size_t i = wide; i + over < values.size(); ++i) lanes[i % 8] += values[i];
  for (std::size_t i = values.size() - over; i < values.size(); ++i) left += values[i];
  if (values.size() < 8) return left;
  const float even = (lanes[0] + lanes[4]) + (lanes[2] + lanes[6]), odd = (lanes[1] + lanes[5]) + (lanes[3] + lanes[7]);
  return left + (even + odd);
}

inline Floats Product(const Floats& a, const Floats& b) {
  Floats made;
  for (std::size_t i = 0; i < a.size(); ++i) made.push_back(a[i] * b[i]);
  return made;
}

inline Floats PlainClip(Floats row, const Bags& bags) {
  const float max_norm = bags.max_norm;
  if (max_norm == 0) return row;
  const float length = std::sqrt(PlainLaneSum(bags.order, Product(row, row)));
  for (float& value : row) value = value * max_norm / (length > max_norm ? length : max_norm);
  return row;
}

// Plain loops for one setting of bags.
struct Plain {
  const Given& given;
  const Bags& bags;

  Floats Row(std::int64_t position) const {
    const auto first = given.rows.begin() + position * given.dim;
    return PlainClip(Floats(first, first + given.dim), bags);
  }
  Floats Grad(std::int64_t bag) const {
    const auto first = given.grads.begin() + bag * given.dim;
    return Floats(first, first + given.dim);
  }

  // Sums one column of weighted rows.  TensorFlow 2 uses four partial sums for 16 rows or more, except in the columns
  // after the last multiple of eight.
  float ColumnSum(const std::vector<Floats>& rows, std::size_t column) const {
    const bool is_four = bags.order == SumOrder::kTensorFlow2 && rows.size() >= 16 && column < rows[0].size() / 8 * 8;
    const std::size_t in_four = is_four ? rows.size() / 4 * 4 : 0;
    float partial[4] = {0};
    for (std::size_t i = 0; i < in_four; ++i) partial[i % 4] += rows[i][column];
    float sum = is_four ? partial[0] + partial[1] + partial[2] + partial[3] : rows[0][column];
    for (std::size_t i = is_four ? in_four : 1; i < rows.size(); ++i) sum += rows[i][column];
    return sum;
  }

  // Sums rows without weights in groups of eight.  The first group also contains the remainder.
  Floats Sum(std::int64_t bag) const {
    const std::int64_t begin = bags.splits[bag], end = bags.splits[bag + 1];
    Floats sum(static_cast<std::size_t>(given.dim), 0.0f), group;
    if (begin == end) return sum;
    if (bags.weights != nullptr) {
      std::vector<Floats> rows;
      for (std::int64_t i = begin; i < end; ++i) rows.push_back(Product(Row(i), Floats(sum.size(), bags.weights[i])));
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] = ColumnSum(rows, c);
      return sum;
    }
    const std::int64_t over = (end - begin) % 8, first = over == 0 ? 8 : over == 1 ? 9 : over;
    for (std::int64_t i = begin; i < end; ++i) {
      const Floats row = Row(i);
      const bool opens = i == begin || (i - begin >= first && (i - begin - first) % 8 == 0);
      if (opens) {
        group = row;
      } else {
        for (std::size_t c = 0; c < row.size(); ++c) group[c] += row[c];
      }
      const bool closes = i + 1 == end || (i + 1 - begin >= first && (i + 1 - begin - first) % 8 == 0);
      if (!closes) continue;
      for (std::size_t c = 0; c < row.size(); ++c) sum[c] = i - begin < first ? group[c] : sum[c] + group[c];
    }
    return sum;
  }

  float Divisor(std::int64_t bag) const {
    float sum = 0;
    for (std::int64_t i = bags.splits[bag]; i < bags.splits[bag + 1]; ++i) {
      const float weight = bags.weights == nullptr ? 1.0f : bags.weights[i];
      sum += bags.combiner == Combiner::kSqrtn ? weight * weight : weight;
    }
    return bags.combiner == Combiner::kSum ? 1.0f : bags.combiner == Combiner::kMean ? sum : std::sqrt(sum);
  }

  Floats Combined() const {
    Floats out;
    for (std::int64_t bag = 0; bag < bags.count; ++bag) {
      const std::int64_t ids = bags.splits[bag + 1] - bags.splits[bag];
      const bool multiplies = bags.order == SumOrder::kTensorFlow2 && bags.weights == nullptr && ids < 10;
      for (const float value : Sum(bag)) {
        const float divisor = Divisor(bag);
        out.push_back(ids == 0 ? 0.0f : multiplies ? value * (1 / divisor) : value / divisor);
      }
    }
    return out;
  }

  Floats Scaled(std::int64_t bag) const {
    Floats grad = Grad(bag);
    const double ids = static_cast<double>(bags.splits[bag + 1] - bags.splits[bag]);
    for (float& value : grad) {
      const double divisor = bags.combiner == Combiner::kMean ? ids : std::sqrt(ids);
      if (bags.combiner == Combiner::kSum) continue;
      value = bags.weights != nullptr ? value / Divisor(bag) : value * static_cast<float>(1 / divisor);
    }
    return grad;
  }

  Floats OfWeights() const {
    Floats out;
    for (std::int64_t bag = 0; bag < bags.count; ++bag) {
      if (bags.splits[bag] == bags.splits[bag + 1]) continue;
      const float divisor = Divisor(bag);
      Floats shares = Sum(bag);
      for (float& value : shares) value = -value / divisor / divisor;
      const float common = PlainLaneSum(bags.order, Product(Grad(bag), shares));
      for (std::int64_t i = bags.splits[bag]; i < bags.splits[bag + 1]; ++i) {
        float own = PlainLaneSum(bags.order, Product(Scaled(bag), Row(i)));
        if (bags.combiner == Combiner::kMean) own += common;
        if (bags.combiner == Combiner::kSqrtn) own += 0.5f * common / divisor * 2 * bags.weights[i];
        out.push_back(own);
      }
    }
    return out;
  }

  // Returns the gradient of a combined row.  This is the gradient of the row itself if the row was not clipped.
  Floats OfRow(std::int64_t bag, std::int64_t position) const {
    Floats made = Scaled(bag);
    for (float& value : made) {
      if (bags.weights != nullptr) value = value * bags.weights[position];
    }
    return made;
  }
};

// Calls check(bags) for every combiner, with and without weights, and with and without a limit that some rows exceed.
inline void EachSetting(const Given& given, const std::function<void(const Bags&)>& check) {
  const float some = std::sqrt(static_cast<float>(given.dim)) * 0.9f;
  for (const Combiner combiner : kCombiners) {
    for (const float* weights : {static_cast<const float*>(nullptr), given.weights.data()}) {
      for (const float max_norm : {0.0f, some}) {
        for (const SumOrder order : kOrders) {
          check({given.splits.data(), given.count, given.positions, weights, combiner, max_norm, order});
        }
      }
    }
  }
}

// Calls work(begin, end) for parts of [0, total).  Each part has a separate thread.
inline void InThreads(std::int64_t total, std::int64_t parts,
                      const std::function<void(std::int64_t, std::int64_t)>& work) {
  std::vector<std::thread> threads;
  for (std::int64_t part = 0; part < parts; ++part) {
    threads.emplace_back([=, &work] { work(total * part / parts, total * (part + 1) / parts); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace plain_bags

#endif  // ASCPIPE_TESTS_CPP_PLAIN_BAGS_H_
