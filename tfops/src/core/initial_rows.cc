#include "core/initial_rows.h"

#include <cmath>
#include <cstring>

#include "core/initial_pool.h"
#include "core/splitmix.h"

namespace ascpipe {

namespace {

constexpr double kTwoToMinus52 = 1.0 / 4503599627370496.0;
constexpr double kTwoToMinus53 = kTwoToMinus52 / 2.0;
constexpr double kLn2 = 0.6931471805599453;
constexpr double kSqrtHalf = 0.7071067811865476;
constexpr double kBelowMinusTwo = 0.022750131948179207;  // normal distribution function at -2
constexpr double kWithinTwo = 0.9544997361036416;        // mass of the normal distribution between -2 and 2

std::uint64_t RowBits(std::uint64_t seed, std::int64_t key) {
  return Mix(Mix(seed + kGolden) ^ static_cast<std::uint64_t>(key));
}

std::uint64_t ElementBits(std::uint64_t row_bits, std::int64_t column) {
  return Mix(row_bits + (static_cast<std::uint64_t>(column) + 1) * kGolden);
}

template <int n>
double Polynomial(const double (&coefficients)[n], double x) {
  double sum = coefficients[n - 1];
  for (int i = n - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// Coefficients of algorithm AS 241, PPND16 (Wichura 1988), lowest power first.
constexpr double kA[] = {3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3,
                         1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                         3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr double kB[] = {1.0,
                         4.2313330701600911252e+1,
                         6.8718700749205790830e+2,
                         5.3941960214247511077e+3,
                         2.1213794301586595867e+4,
                         3.9307895800092710610e+4,
                         2.8729085735721942674e+4,
                         5.2264952788528545610e+3};
constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0, 5.76949722146069140550e0,
                         3.64784832476320460504e0,  1.27045825245236838258e0, 2.41780725177450611770e-1,
                         2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kD[] = {1.0,
                         2.05319162663775882187e0,
                         1.67638483018380384940e0,
                         6.89767334985100004550e-1,
                         1.48103976427480074590e-1,
                         1.51986665636164571966e-2,
                         5.47593808499534494600e-4,
                         1.05075007164441684324e-9};
constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,
                         2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                         2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kF[] = {1.0,
                         5.99832206555887937690e-1,
                         1.36929880922735805310e-1,
                         1.48753612908506148525e-2,
                         7.86869131145613259100e-4,
                         1.84631831751005468180e-5,
                         1.42151175831644588870e-7,
                         2.04426310338993978564e-15};
// Coefficients of 2 artanh(s) = s * sum of 2 / (2 i + 1) * s^(2 i).
constexpr double kArtanh[] = {2.0,        2.0 / 3.0,  2.0 / 5.0,  2.0 / 7.0,  2.0 / 9.0,  2.0 / 11.0,
                              2.0 / 13.0, 2.0 / 15.0, 2.0 / 17.0, 2.0 / 19.0, 2.0 / 21.0, 2.0 / 23.0};

}  // namespace

std::uint64_t InitialBits(std::uint64_t seed, std::int64_t key, std::int64_t column) {
  return ElementBits(RowBits(seed, key), column);
}

std::int64_t PoolRow(std::uint64_t seed, std::int64_t key, std::int64_t pool_rows) {
  const std::uint64_t high = RowBits(seed, key) >> 32;
  return static_cast<std::int64_t>(high * static_cast<std::uint64_t>(pool_rows) >> 32);
}

double Log(double x) {
  std::uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  int exponent = static_cast<int>(bits >> 52) - 1022;
  bits = (bits & 0x000fffffffffffffu) | 0x3fe0000000000000u;  // mantissa in [1/2, 1)
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa < kSqrtHalf) {
    mantissa = mantissa * 2.0;
    exponent -= 1;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  return s * Polynomial(kArtanh, s * s) + exponent * kLn2;
}

double InverseNormal(double p) {
  const double q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * Polynomial(kA, r) / Polynomial(kB, r);
  }
  double r = std::sqrt(-Log(q < 0.0 ? p : 1.0 - p));  // IEEE 754 square roots are exact
  double x;
  if (r <= 5.0) {
    r = r - 1.6;
    x = Polynomial(kC, r) / Polynomial(kD, r);
  } else {
    r = r - 5.0;
    x = Polynomial(kE, r) / Polynomial(kF, r);
  }
  return q < 0.0 ? -x : x;
}

void FillFrom(const InitialRows& initial, const float* pool, std::int64_t key, std::int64_t dim, float* row) {
  if (initial.kind != layout::kInitialPool) {
    initial.Fill(key, dim, row);
    return;
  }
  const float* const from = pool + PoolRow(initial.seed, key, initial.pool_rows) * dim;
  for (std::int64_t column = 0; column < dim; ++column) row[column] = static_cast<float>(from[column] * initial.scale);
}

void InitialRows::Fill(std::int64_t key, std::int64_t dim, float* row) const {
  if (kind == layout::kInitialConstant) {
    const float value = static_cast<float>(a * scale);
    for (std::int64_t column = 0; column < dim; ++column) row[column] = value;
    return;
  }
  if (kind == layout::kInitialPool) {
    FillFrom(*this, pool.data(), key, dim, row);
    return;
  }
  const std::uint64_t row_bits = RowBits(seed, key);
  for (std::int64_t column = 0; column < dim; ++column) {
    const std::uint64_t bits = ElementBits(row_bits, column);
    double value;
    if (kind == layout::kInitialUniform) {
      value = a + (b - a) * (static_cast<double>(bits >> 11) * kTwoToMinus53);
    } else {
      double p = (static_cast<double>(bits >> 12) + 0.5) * kTwoToMinus52;
      if (kind == layout::kInitialTruncatedNormal) p = kBelowMinusTwo + kWithinTwo * p;
      value = a + b * InverseNormal(p);
    }
    row[column] = static_cast<float>(value * scale);
  }
}

}  // namespace ascpipe
