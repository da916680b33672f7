#include "core/row_updates.h"

#include <algorithm>
#include <cmath>

#include "core/processors.h"
#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kUpdatedAhead = 16;  // prefetch distance in rows

// Function objects that update one element of a row. The constructors compute the values that are the same for all
// elements.

template <bool decays>
struct DescentElement {
  static constexpr int kStates = 1;
  float rate, weight_decay;

  ASC_INLINE void operator()(float g, float* w) const {
    if (decays) g += weight_decay * *w;
    *w -= g * rate;
  }
};

struct AdagradElement {
  static constexpr int kStates = 2;
  float rate;

  ASC_INLINE void operator()(float g, float* w, float* accumulator) const {
    *accumulator += g * g;
    *w -= rate * g * (1.0f / std::sqrt(*accumulator));
  }
};

struct AdagradByAddressElement {
  static constexpr int kStates = 2;
  float rate;

  ASC_INLINE void operator()(float g, float* w, float* accumulator) const {
    *accumulator += g * g;
    *w -= rate * g / std::sqrt(*accumulator + 1e-7f);
  }
};

struct LazyAdamElement {
  static constexpr int kStates = 3;
  float beta1, new1, beta2, new2, epsilon, rate;

  explicit LazyAdamElement(const LazyAdam& rule)
      : beta1(rule.beta1),
        new1(1.0f - rule.beta1),
        beta2(rule.beta2),
        new2(1.0f - rule.beta2),
        epsilon(rule.epsilon),
        rate(rule.rate * std::sqrt(1.0f - rule.beta2_power) / (1.0f - rule.beta1_power)) {}

  ASC_INLINE void operator()(float g, float* w, float* m, float* v) const {
    *m = beta1 * *m + new1 * g;
    *v = beta2 * *v + new2 * (g * g);
    *w -= rate * *m / (std::sqrt(*v) + epsilon);
  }
};

template <bool is_root, bool shrinks>
struct FtrlElement {
  static constexpr int kStates = 3;
  float rate, l1, twice_l2, twice_shrinkage, power;

  explicit FtrlElement(const Ftrl& rule)
      : rate(rule.rate),
        l1(rule.l1),
        twice_l2(2.0f * rule.l2),
        twice_shrinkage(2.0f * rule.shrinkage),
        power(-rule.power) {}

  ASC_INLINE float Raised(float accum) const { return is_root ? std::sqrt(accum) : std::pow(accum, power); }

  ASC_INLINE void operator()(float g, float* w, float* accum, float* linear) const {
    const float shrunk = shrinks ? g + twice_shrinkage * *w : g;
    const float before = Raised(*accum);
    *accum += g * g;
    const float after = Raised(*accum);
    *linear += shrunk - (after - before) / rate * *w;
    const float clipped = std::max(std::min(*linear, l1), -l1);
    *w = (clipped - *linear) / (after / rate + twice_l2);
  }
};

template <typename Element>
ASC_INLINE void UpdateRow(const Element& element, float* const* states, const float* __restrict__ grad,
                          std::int64_t dim, std::integral_constant<int, 1>) {
  float* __restrict__ w = states[0];
#pragma GCC unroll 1  // GCC does not vectorize a loop that it has unrolled
  for (std::int64_t i = 0; i < dim; ++i) element(grad[i], w + i);
}

template <typename Element>
ASC_INLINE void UpdateRow(const Element& element, float* const* states, const float* __restrict__ grad,
                          std::int64_t dim, std::integral_constant<int, 2>) {
  float* __restrict__ w = states[0];
  float* __restrict__ first = states[1];
#pragma GCC unroll 1  // GCC does not vectorize a loop that it has unrolled
  for (std::int64_t i = 0; i < dim; ++i) element(grad[i], w + i, first + i);
}

template <typename Element>
ASC_INLINE void UpdateRow(const Element& element, float* const* states, const float* __restrict__ grad,
                          std::int64_t dim, std::integral_constant<int, 3>) {
  float* __restrict__ w = states[0];
  float* __restrict__ first = states[1];
  float* __restrict__ second = states[2];
#pragma GCC unroll 1  // GCC does not vectorize a loop that it has unrolled
  for (std::int64_t i = 0; i < dim; ++i) element(grad[i], w + i, first + i, second + i);
}

// WithLength (core/processors.h) explains the parameter constant_dim.
template <std::int64_t constant_dim, typename Element>
ASC_INLINE void UpdateRows(const Element& element, const UpdatedRows& update) {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : update.dim;
  for (std::int64_t i = 0; i < update.n; ++i) {
    if (i + kUpdatedAhead < update.n) {
      const std::int64_t ahead = std::max<std::int64_t>(0, update.rows[i + kUpdatedAhead]) * update.stride;
      for (int state = 0; state < Element::kStates; ++state) PrefetchRow(update.states[state] + ahead, dim);
    }
    if (update.rows[i] < 0) continue;
    float* states[Element::kStates];
    for (int state = 0; state < Element::kStates; ++state) {
      states[state] = update.states[state] + update.rows[i] * update.stride;
    }
    UpdateRow(element, states, update.grads + i * dim, dim, std::integral_constant<int, Element::kStates>());
  }
}

template <typename Element>
ASC_INLINE void UpdateAny(const Element& element, const UpdatedRows& rows) {
  WithLength(rows.dim, [&](auto length) ASC_INLINED { UpdateRows<length>(element, rows); });
}

}  // namespace

ASC_FOR_EACH_PROCESSOR
void Update(const GradientDescent& rule, const UpdatedRows& rows) {
  if (rule.weight_decay == 0.0f) {
    UpdateAny(DescentElement<false>{rule.rate, 0.0f}, rows);
  } else {
    UpdateAny(DescentElement<true>{rule.rate, rule.weight_decay}, rows);
  }
}

ASC_FOR_EACH_PROCESSOR
void Update(const Adagrad& rule, const UpdatedRows& rows) { UpdateAny(AdagradElement{rule.rate}, rows); }

ASC_FOR_EACH_PROCESSOR
void Update(const AdagradByAddress& rule, const UpdatedRows& rows) {
  UpdateAny(AdagradByAddressElement{rule.rate}, rows);
}

ASC_FOR_EACH_PROCESSOR
void Update(const LazyAdam& rule, const UpdatedRows& rows) { UpdateAny(LazyAdamElement(rule), rows); }

ASC_FOR_EACH_PROCESSOR
void Update(const Ftrl& rule, const UpdatedRows& rows) {
  if (rule.power == -0.5f) {
    rule.shrinkage == 0.0f ? UpdateAny(FtrlElement<true, false>(rule), rows)
                           : UpdateAny(FtrlElement<true, true>(rule), rows);
  } else {
    rule.shrinkage == 0.0f ? UpdateAny(FtrlElement<false, false>(rule), rows)
                           : UpdateAny(FtrlElement<false, true>(rule), rows);
  }
}

}  // namespace ascpipe
