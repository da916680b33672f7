// Updates of rows.  Only the named rows change, at any position, and the bits do not depend on the row length.
#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"
#include "core/row_updates.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kRows = 50, kNamed = 30, kGap = 5;
const std::int64_t kDims[] = {1, 2, 7, 8, 16, 31, 32, 64, 65, 128};

float Value(std::int64_t i) { return static_cast<float>((i * 7919) % 1009) / 97.0f + 0.125f; }

// Rows whose states are stored one after the other, followed by a gap.
struct Home {
  Home(std::int64_t row_dim, int states) : dim(row_dim), stride(states * row_dim + kGap), floats(kRows * stride) {
    for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = Value(static_cast<std::int64_t>(i));
    for (std::int64_t i = 0; i < kNamed; ++i) rows.push_back(i % 7 == 3 ? -1 : (i * 17) % kRows);
    for (std::int64_t i = 0; i < kNamed * dim; ++i) grads.push_back(Value(3 * i) - 5.0f);
  }
  UpdatedRows Update() {
    return {
        {floats.data(), floats.data() + dim, floats.data() + 2 * dim}, stride, dim, rows.data(), grads.data(), kNamed};
  }
  std::int64_t dim, stride;
  std::vector<float> floats, grads;
  std::vector<std::int64_t> rows;
};

// Compares with `one`, a function of (gradient, states of the element) that changes one element.
template <typename Rule, typename One>
void MatchesTheElement(const Rule& rule, const One& one) {
  for (const std::int64_t dim : kDims) {
    Home home(dim, Rule::kStates), expected(dim, Rule::kStates);
    Update(rule, home.Update());
    for (std::int64_t i = 0; i < kNamed; ++i) {
      if (expected.rows[i] < 0) continue;
      for (std::int64_t column = 0; column < dim; ++column) {
        float* states[kMostStates];
        for (int state = 0; state < kMostStates; ++state) {
          states[state] = &expected.floats[expected.rows[i] * expected.stride + (state % Rule::kStates) * dim + column];
        }
        one(expected.grads[i * dim + column], states);
      }
    }
    CHECK_EQ(std::memcmp(home.floats.data(), expected.floats.data(), home.floats.size() * sizeof(float)), 0);
  }
}

}  // namespace

TEST(GradientDescentIsThatOfEachElement) {
  MatchesTheElement(GradientDescent{0.1f, 0.0f}, [](float g, float** state) { *state[0] -= g * 0.1f; });
  MatchesTheElement(GradientDescent{0.1f, 0.5f},
                    [](float g, float** state) { *state[0] -= (g + 0.5f * *state[0]) * 0.1f; });
}

TEST(AdagradIsThatOfEachElement) {
  MatchesTheElement(Adagrad{0.1f}, [](float g, float** state) {
    *state[1] += g * g;
    *state[0] -= 0.1f * g * (1.0f / std::sqrt(*state[1]));
  });
  MatchesTheElement(AdagradByAddress{0.1f}, [](float g, float** state) {
    *state[1] += g * g;
    *state[0] -= 0.1f * g / std::sqrt(*state[1] + 1e-7f);
  });
}

TEST(LazyAdamIsThatOfEachElement) {
  const float rate = 0.1f * std::sqrt(1.0f - 0.998f) / (1.0f - 0.81f);
  MatchesTheElement(LazyAdam{0.1f, 0.9f, 0.999f, 1e-8f, 0.81f, 0.998f}, [rate](float g, float** state) {
    *state[1] = 0.9f * *state[1] + (1.0f - 0.9f) * g;
    *state[2] = 0.999f * *state[2] + (1.0f - 0.999f) * (g * g);
    *state[0] -= rate * *state[1] / (std::sqrt(*state[2]) + 1e-8f);
  });
}

TEST(FtrlIsThatOfEachElement) {
  for (const float shrinkage : {0.0f, 0.25f}) {
    for (const float power : {-0.5f, -0.75f}) {
      MatchesTheElement(Ftrl{0.1f, 0.01f, 0.02f, shrinkage, power}, [shrinkage, power](float g, float** state) {
        const auto raised = [power](float value) {
          return power == -0.5f ? std::sqrt(value) : std::pow(value, -power);
        };
        const float shrunk = g + 2.0f * shrinkage * *state[0], before = raised(*state[1]);
        *state[1] += g * g;
        const float after = raised(*state[1]);
        *state[2] += shrunk - (after - before) / 0.1f * *state[0];
        const float clipped = std::max(std::min(*state[2], 0.01f), -0.01f);
        *state[0] = (clipped - *state[2]) / (after / 0.1f + 2.0f * 0.02f);
      });
    }
  }
}
