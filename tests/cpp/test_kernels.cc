// Sums and gathers, compared with plain loops.
#include <cstring>
#include <vector>

#include "check.h"
#include "core/dealt_gradients.h"
#include "core/gather.h"
#include "core/segment_sum.h"

using namespace ascpipe;

namespace {

unsigned state = 12345;
int Random(int limit) {
  state = state * 1664525u + 1013904223u;
  return static_cast<int>((state >> 8) % static_cast<unsigned>(limit));
}
float RandomFloat() { return static_cast<float>(Random(2000001) - 1000000) / 12345.0f; }

const std::int64_t kDims[] = {1, 2, 7, 8, 16, 31, 32, 64, 65, 128};

}  // namespace

TEST(SumsAreBitEqualToThePlainLoop) {
  for (const std::int64_t dim : kDims) {
    const std::int64_t n = 500, distinct = 60;
    std::vector<std::int32_t> slots(distinct), restore(n), places(distinct), indices(distinct);
    for (auto& slot : slots) slot = Random(5) == 0 ? -1 : Random(1000);
    for (auto& index : restore) index = Random(distinct);
    std::vector<float> grads(n * dim);
    for (auto& grad : grads) grad = RandomFloat();
    const std::int64_t valid = NumberValidSlots(slots.data(), distinct, places.data(), indices.data());
    std::vector<float> sums(valid * dim, 0.0f), expected(distinct * dim, 0.0f);
    CHECK_EQ(AddGradients(places.data(), distinct, {restore.data(), grads.data(), n, dim}, dim, sums.data()), -1);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t c = 0; c < dim; ++c) expected[restore[i] * dim + c] += grads[i * dim + c];
    }
    std::int64_t row = 0;
    for (std::int64_t u = 0; u < distinct; ++u) {
      if (slots[u] < 0) continue;
      CHECK_EQ(indices[row], slots[u]);
      CHECK_EQ(std::memcmp(&sums[row * dim], &expected[u * dim], dim * sizeof(float)), 0);
      ++row;
    }
    CHECK_EQ(row, valid);
  }
}

TEST(GradientsThatAreDealtOutGiveTheSameSumsInAnyOrderOfTheWork) {
  for (const std::int64_t dim : kDims) {
    const std::int64_t distinct = 700;
    std::vector<std::int32_t> places(distinct), indices(distinct), slots(distinct);
    for (std::int64_t i = 0; i < distinct; ++i) slots[i] = Random(5) == 0 ? -1 : static_cast<std::int32_t>(i);
    const std::int64_t valid = NumberValidSlots(slots.data(), distinct, places.data(), indices.data());
    std::vector<std::int32_t> restores[2];
    std::vector<float> grads[2], expected(valid * dim, 0.0f), sums(valid * dim, -1.0f);
    std::vector<LookupGradient> lookups;
    for (int which = 0; which < 2; ++which) {
      restores[which].resize(which == 0 ? 9000 : 300);
      for (auto& index : restores[which]) index = Random(4) == 0 ? Random(3) - 1 : Random(distinct);
      grads[which].resize(restores[which].size() * dim);
      for (auto& grad : grads[which]) grad = RandomFloat();
      const std::int64_t positions = static_cast<std::int64_t>(restores[which].size());
      lookups.push_back({restores[which].data(), grads[which].data(), positions, dim});
      if (which == 1) {  // three ids in each row
        lookups.back().side_by_side = 3;
        lookups.back().stride = 3 * dim;
      }
      CHECK_EQ(AddGradients(places.data(), distinct, lookups[which], dim, expected.data()), -1);
    }
    DealtGradients dealt(places.data(), distinct, lookups, dim);
    CHECK_EQ(dealt.chunks(), 3);
    for (std::int64_t chunk = 2; chunk >= 0; --chunk) dealt.Deal(chunk, chunk + 1);
    CHECK_EQ(dealt.bad().position, -1);
    for (std::int64_t hand = DealtGradients::kHands - 1; hand >= 0; --hand)
      dealt.Add(hand, hand + 1, valid, sums.data());
    CHECK_EQ(std::memcmp(sums.data(), expected.data(), sums.size() * sizeof(float)), 0);
    restores[1][7] = distinct;
    restores[1][9] = -2;
    DealtGradients damaged(places.data(), distinct, lookups, dim);
    damaged.Deal(0, damaged.chunks());
    CHECK_EQ(damaged.bad().lookup, 1);
    CHECK_EQ(damaged.bad().position, 7);
  }
}

TEST(GathersCopyTheRowOrTheDefault) {
  for (const std::int64_t dim : kDims) {
    const std::int64_t rows = 40, distinct = 20, n = 300;
    std::vector<float> table(rows * dim), fallback(dim, -7.0f), out(n * dim, 0.0f);
    for (auto& value : table) value = RandomFloat();
    std::vector<std::int32_t> slots(distinct), restore(n);
    for (auto& slot : slots) slot = Random(rows + 1) - 1;
    for (auto& index : restore) index = Random(distinct);
    const GatherSource source = {table.data(), rows, dim, slots.data(), distinct, fallback.data()};
    CHECK_EQ(FirstBadSlot(source), -1);
    CHECK_EQ(GatherRows(source, {restore.data(), n, out.data(), dim}, 0, 100), -1);
    CHECK_EQ(GatherRows(source, {restore.data(), n, out.data(), dim}, 100, n), -1);
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t slot = slots[restore[i]];
      const float* row = slot < 0 ? fallback.data() : &table[slot * dim];
      CHECK_EQ(std::memcmp(&out[i * dim], row, dim * sizeof(float)), 0);
    }
  }
}

TEST(TheFirstIndexOutsideIsNamed) {
  const float table[] = {1, 2}, fallback[] = {0};
  const std::int32_t slots[] = {0, 1, 2}, restore[] = {0, 1, -2, 9};
  float out[4];
  std::int32_t places[3], indices[3];
  const GatherSource source = {table, 2, 1, slots, 3, fallback};
  CHECK_EQ(FirstBadSlot(source), 2);
  const GatherSource good = {table, 2, 1, slots, 2, fallback};
  CHECK_EQ(GatherRows(good, {restore, 4, out, 1}, 0, 4), 2);
  CHECK_EQ(GatherRows(good, {restore, 4, out, 1}, 3, 4), 3);
  CHECK_EQ(NumberValidSlots(slots, 2, places, indices), 2);
  float sums[2] = {0, 0};
  CHECK_EQ(AddGradients(places, 2, {restore, out, 4, 1}, 1, sums), 2);
}

TEST(MissingPositionsGetTheDefaultRowAndGiveNoGradient) {
  const float table[] = {1, 2}, fallback[] = {-7}, grads[] = {1, 2, 4};
  const std::int32_t slots[] = {1, 0}, restore[] = {-1, 1, -1};
  float out[3], sums[2] = {0, 0};
  std::int32_t places[2], indices[2];
  const GatherSource source = {table, 2, 1, slots, 2, fallback};
  CHECK_EQ(GatherRows(source, {restore, 3, out, 1}, 0, 3), -1);
  CHECK_EQ(out[0], -7.0f);
  CHECK_EQ(out[1], 1.0f);
  CHECK_EQ(out[2], -7.0f);
  CHECK_EQ(NumberValidSlots(slots, 2, places, indices), 2);
  CHECK_EQ(AddGradients(places, 2, {restore, grads, 3, 1}, 1, sums), -1);
  CHECK_EQ(sums[0], 0.0f);
  CHECK_EQ(sums[1], 2.0f);
}

TEST(FrozenRowsAreLookedUpAndNotTrained) {
  const float table[] = {1, 2, 3}, fallback[] = {-7};
  const std::int32_t slots[] = {2 + layout::kSlotFrozen, 0, layout::kSlotFrozen + 3}, restore[] = {0, 1};
  float out[2];
  std::int32_t places[3], indices[3];
  const GatherSource source = {table, 3, 1, slots, 2, fallback};
  CHECK_EQ(FirstBadSlot(source), -1);
  CHECK_EQ(GatherRows(source, {restore, 2, out, 1}, 0, 2), -1);
  CHECK_EQ(out[0], 3.0f);
  CHECK_EQ(out[1], 1.0f);
  CHECK_EQ(NumberValidSlots(slots, 2, places, indices), 1);
  CHECK_EQ(places[0], -1);
  CHECK_EQ(indices[0], 0);
  const GatherSource beyond = {table, 3, 1, slots, 3, fallback};
  CHECK_EQ(FirstBadSlot(beyond), 2);
}

TEST(CodesReadHomeRowsOnlyWhereThereIsMemory) {
  for (const std::int64_t dim : kDims) {
    const std::int64_t floats = dim + 3;
    std::vector<float> table(2 * dim, 5.0f), homes(3 * floats), fallback(dim, -7.0f), out(4 * dim);
    for (std::size_t i = 0; i < homes.size(); ++i) homes[i] = static_cast<float>(i);
    const std::int32_t slots[] = {layout::kSlotHome - 2, 1, -1, layout::kSlotHome}, restore[] = {3, 2, 1, 0};
    const GatherSource source = {table.data(), 2, dim, slots, 4, fallback.data(), homes.data(), 3, floats};
    CHECK_EQ(FirstBadSlot(source), -1);
    CHECK_EQ(GatherRows(source, {restore, 4, out.data(), dim}, 0, 4), -1);
    CHECK_EQ(std::memcmp(&out[0], &homes[0], dim * sizeof(float)), 0);
    CHECK_EQ(out[dim], -7.0f);
    CHECK_EQ(out[2 * dim], 5.0f);
    CHECK_EQ(std::memcmp(&out[3 * dim], &homes[2 * floats], dim * sizeof(float)), 0);
    const GatherSource fewer = {table.data(), 2, dim, slots, 4, fallback.data(), homes.data(), 2, floats};
    CHECK_EQ(FirstBadSlot(fewer), 0);
    CHECK_EQ(FirstBadSlot(fewer, 1), -1);
  }
}
