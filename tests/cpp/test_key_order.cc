// Sorting of keys, ranges of keys, and rows in another order.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "check.h"
#include "rows/key_order.h"

using namespace ascpipe;

namespace {

using Keys = std::vector<std::int64_t>;
using Order = std::vector<std::uint32_t>;

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Returns keys whose lower `bits` bits differ.
Keys SomeKeys(std::size_t count, int bits) {
  Keys keys(count);
  std::uint64_t state = 1;
  for (std::int64_t& key : keys) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    key = static_cast<std::int64_t>(state >> (64 - bits));
  }
  return keys;
}

std::vector<Keys> Examples() {
  std::vector<Keys> examples = {{}, {3}, {kMost, kLeast}, {5, 5, 5}, Keys(100, kLeast)};
  for (const std::size_t count : {2, 33, 1000, 5000}) {
    for (const int bits : {1, 7, 8, 9, 33, 64}) examples.push_back(SomeKeys(count, bits));
  }
  Keys near = SomeKeys(4000, 12);
  near.insert(near.end(), {kLeast, kMost});  // all other keys are in one part
  examples.push_back(near);
  return examples;
}

Order StableOrder(const Keys& keys) {
  Order order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&keys](std::uint32_t one, std::uint32_t other) { return keys[one] < keys[other]; });
  return order;
}

}  // namespace

TEST(KeysAreSortedAndEqualKeysKeepTheirOrder) {
  for (const Keys& keys : Examples()) {
    const std::int64_t count = static_cast<std::int64_t>(keys.size());
    std::vector<PlacedKey> placed(2 * keys.size());
    Order order(keys.size());
    OrderKeys(keys.data(), count, placed.data(), order.data());
    CHECK(order == StableOrder(keys));
    Keys sorted = keys, wanted = keys, scratch(keys.size());
    SortKeys(sorted.data(), count, scratch.data());
    std::sort(wanted.begin(), wanted.end());
    CHECK(sorted == wanted);
  }
}

TEST(RangesOfKeysAreBetweenTheirBounds) {
  const Keys bounds = {kLeast, -3, 0, 1, 700, kMost};
  for (std::size_t used = 0; used <= bounds.size(); ++used) {
    const Keys keys = {kLeast, kLeast + 1, -4, -3, -2, 0, 1, 2, 699, 700, kMost - 1, kMost};
    std::vector<std::uint16_t> ranges(keys.size());
    Keys counts(used + 1), wanted(used + 1);
    FindRanges(keys.data(), static_cast<std::int64_t>(keys.size()), bounds.data(), static_cast<std::int64_t>(used),
               ranges.data(), counts.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto below = std::upper_bound(bounds.begin(), bounds.begin() + static_cast<std::ptrdiff_t>(used), keys[i]);
      CHECK_EQ(ranges[i], below - bounds.begin());
      ++wanted[ranges[i]];
    }
    CHECK(counts == wanted);
  }
}

TEST(RowsAreGroupedByTheirRangesAndGathered) {
  const std::vector<std::uint32_t> ranges = {2, 0, 2, 4, 0, 2};
  Keys counts(5), scratch(5);
  Order order(ranges.size());
  GroupRows(ranges.data(), 6, 5, counts.data(), scratch.data(), order.data());
  CHECK(order == (Order{1, 4, 0, 2, 5, 3}));
  CHECK(counts == (Keys{2, 0, 3, 0, 1}));
  for (const std::size_t row_bytes : {1, 6, 8, 16, 32, 64, 128, 200}) {
    std::vector<char> rows(ranges.size() * row_bytes), gathered(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<char>(i * 7);
    GatherRows(rows.data(), static_cast<std::int64_t>(row_bytes), order.data(), 6, gathered.data());
    for (std::size_t i = 0; i < order.size(); ++i) {
      CHECK(std::equal(gathered.begin() + static_cast<std::ptrdiff_t>(i * row_bytes),
                       gathered.begin() + static_cast<std::ptrdiff_t>((i + 1) * row_bytes),
                       rows.begin() + static_cast<std::ptrdiff_t>(order[i] * row_bytes)));
    }
  }
}
