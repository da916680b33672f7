// Bags and their gradients, compared with plain loops.
#include <cmath>
#include <vector>

#include "check.h"
#include "core/bag_gradients.h"
#include "core/bags.h"
#include "plain_bags.h"

using namespace plain_bags;

TEST(CombinedRowsAreThoseOfThePlainLoopInAnyNumberOfParts) {
  for (const std::int64_t dim : kDims) {
    const Given given(dim);
    EachSetting(given, [&](const Bags& bags) {
      const Floats wanted = Plain{given, bags}.Combined();
      for (const std::int64_t parts : {1, 3, 64}) {
        for (const BagRows& rows : {given.InTable(), given.InPlace()}) {
          for (const std::int64_t stride : {dim, dim + 3}) {
            Floats out(static_cast<std::size_t>(bags.count * stride), 7.0f);
            InThreads(bags.count, parts, [&](std::int64_t begin, std::int64_t end) {
              CHECK_EQ(CombineBags(rows, bags, begin, end, out.data(), stride), -1);
            });
            CHECK(Same(out, Spread(wanted, dim, stride)));
          }
        }
      }
    });
  }
}

TEST(GradientsOfWeightsAreThoseOfThePlainLoop) {
  for (const std::int64_t dim : kDims) {
    const Given given(dim);
    EachSetting(given, [&](const Bags& bags) {
      if (bags.weights == nullptr) return;
      const Floats wanted = Plain{given, bags}.OfWeights();
      for (const std::int64_t parts : {1, 3, 64}) {
        for (const BagRows& rows : {given.InTable(), given.InPlace()}) {
          Floats out(wanted.size(), NAN);
          InThreads(bags.count, parts, [&](std::int64_t begin, std::int64_t end) {
            CHECK_EQ(WeightGradients(rows, bags, given.grads.data(), begin, end, out.data()), -1);
          });
          CHECK(Same(out, wanted));
        }
      }
    });
  }
}

TEST(GradientsOfRowsAreThoseOfThePlainLoopAndOfTheirClippedForm) {
  for (const std::int64_t dim : kDims) {
    const Given given(dim);
    EachSetting(given, [&](const Bags& bags) {
      Floats wanted;
      for (std::int64_t bag = 0; bag < bags.count; ++bag) {
        for (std::int64_t i = bags.splits[bag]; i < bags.splits[bag + 1]; ++i) {
          Floats one = Plain{given, bags}.OfRow(bag, i);
          if (bags.max_norm != 0) ClipGradient(&given.rows[i * dim], bags, dim, one.data(), one.data());
          wanted.insert(wanted.end(), one.begin(), one.end());
        }
      }
      for (const std::int64_t parts : {1, 3, 64}) {
        Floats out(wanted.size(), NAN);
        InThreads(bags.count, parts, [&](std::int64_t begin, std::int64_t end) {
          RowGradients(given.rows.data(), bags, given.grads.data(), dim, begin, end, out.data());
        });
        CHECK(Same(out, wanted));
      }
    });
  }
}

TEST(TheGradientOfAClippedRowIsThatOfTheFunction) {
  for (const std::int64_t dim : kDims) {
    for (const SumOrder order : kOrders) {
      for (const float max_norm : {0.3f, 1000.0f}) {
        Bags bags = {};
        bags.max_norm = max_norm;
        bags.order = order;
        const Floats row = RandomFloats(dim), grad = RandomFloats(dim);
        Floats made(row.size());
        ClipGradient(row.data(), bags, dim, grad.data(), made.data());
        double squares = 0, along = 0;
        for (std::int64_t i = 0; i < dim; ++i) squares += static_cast<double>(row[i]) * row[i];
        for (std::int64_t i = 0; i < dim; ++i) along += static_cast<double>(row[i]) * grad[i];
        const bool clips = squares > static_cast<double>(max_norm) * max_norm;
        for (std::int64_t i = 0; i < dim; ++i) {
          const double wanted = clips ? max_norm / std::sqrt(squares) * (grad[i] - row[i] * along / squares) : grad[i];
          CHECK(std::fabs(made[i] - wanted) < 1e-4);
        }
      }
    }
  }
}

TEST(SumsOfGradientsAreThoseOfThePlainLoopInAnyNumberOfParts) {
  constexpr std::int64_t kPlaces = kSlots, kValid = 23;
  std::vector<std::int32_t> places(kPlaces);
  for (std::int64_t i = 0; i < kPlaces; ++i) places[i] = i < kValid ? static_cast<std::int32_t>(kValid - 1 - i) : -1;
  for (const std::int64_t dim : kDims) {
    const Given given(dim);
    const Floats plain_grads = RandomFloats(given.positions * dim);
    EachSetting(given, [&](const Bags& bags) {
      const BagGradient of_bags = {given.restore.data(), given.grads.data(), dim, given.positions, true, bags};
      const BagGradient of_rows = {given.restore.data(), plain_grads.data(), dim, given.positions, false, {}};
      Floats wanted(kValid * dim, 0.0f);
      const auto add = [&](std::int64_t position, const Floats& grad) {
        const std::int32_t index = given.restore[position], place = index < 0 ? -1 : places[index];
        for (std::int64_t c = 0; place >= 0 && c < dim; ++c) wanted[place * dim + c] += grad[c];
      };
      for (std::int64_t bag = 0; bag < bags.count; ++bag) {
        for (std::int64_t i = bags.splits[bag]; i < bags.splits[bag + 1]; ++i) add(i, Plain{given, bags}.OfRow(bag, i));
      }
      for (std::int64_t i = 0; i < given.positions; ++i) {
        add(i, Floats(plain_grads.begin() + i * dim, plain_grads.begin() + (i + 1) * dim));
      }
      const Floats wide = Spread(given.grads, dim, dim + 3);
      const BagGradient among_others = {given.restore.data(), wide.data(), dim + 3, given.positions, true, bags};
      for (const std::int64_t parts : {1, 2, 5, 9}) {
        Floats sums(wanted.size(), NAN);
        InThreads(parts, parts, [&](std::int64_t number, std::int64_t) {
          const SumPart part = {number, parts};
          ZeroPart(part, kValid, dim, sums.data());
          for (const BagGradient& lookup : {parts == 2 ? among_others : of_bags, of_rows}) {
            CHECK_EQ(AddBagGradients(places.data(), kPlaces, lookup, dim, part, sums.data()), -1);
          }
        });
        CHECK(Same(sums, wanted));
      }
    });
  }
}

TEST(SumsForClippedRowsBecomeThoseOfTheRowsThemselves) {
  constexpr std::int64_t kValid = 23;
  std::vector<std::int32_t> indices(kValid);
  for (std::int32_t& index : indices) index = Random(kRows);
  Bags bags = {};
  bags.max_norm = 0.7f;
  for (const std::int64_t dim : kDims) {
    const Given given(dim);
    const Floats clipped = RandomFloats(kValid * dim), before = RandomFloats(kValid * dim);
    Floats wanted = before;
    for (std::int64_t i = 0; i < kValid; ++i) {
      Floats one(static_cast<std::size_t>(dim));
      ClipGradient(&given.table[indices[i] * dim], bags, dim, &clipped[i * dim], one.data());
      for (std::int64_t c = 0; c < dim; ++c) wanted[i * dim + c] += one[c];
    }
    for (const std::int64_t parts : {1, 2, 5, 9}) {
      Floats sums = before;
      InThreads(parts, parts, [&](std::int64_t number, std::int64_t) {
        AddClipped(given.table.data(), indices.data(), bags, clipped.data(), kValid, dim, {number, parts}, sums.data());
      });
      CHECK(Same(sums, wanted));
    }
  }
}

TEST(AnIndexBeyondTheSlotsIsNamedByItsPosition) {
  for (const std::int64_t dim : kDims) {
    Given given(dim);
    const std::int64_t bad = given.positions / 2;
    for (const std::int32_t index : {static_cast<std::int32_t>(kSlots), -2}) {
      given.restore[bad] = index;
      EachSetting(given, [&](const Bags& bags) {
        Floats out(given.rows.size() + given.grads.size()), sums(kSlots * dim);
        std::vector<std::int32_t> places(kSlots, 0);
        CHECK_EQ(CombineBags(given.InTable(), bags, 0, bags.count, out.data(), dim), bad);
        if (bags.weights != nullptr) {
          CHECK_EQ(WeightGradients(given.InTable(), bags, given.grads.data(), 0, bags.count, out.data()), bad);
        }
        const BagGradient of_bags = {given.restore.data(), given.grads.data(), dim, given.positions, true, bags};
        CHECK_EQ(AddBagGradients(places.data(), kSlots, of_bags, dim, {0, 1}, sums.data()), bad);
        CHECK_EQ(AddBagGradients(places.data(), kSlots, of_bags, dim, {1, 3}, sums.data()), bad);
      });
    }
  }
}
