// Initial rows of keys. An initial row is a pure function of (table seed, key), and is bit-identical on every machine.
//
// The functions use integer arithmetic and fixed polynomials in double, and round each result to float once. The
// functions do not use libm, because the last bits of results differ between versions of libm. The reference
// implementation is tests/reference/initial_rows.py.
#ifndef ASCPIPE_CORE_INITIAL_ROWS_H_
#define ASCPIPE_CORE_INITIAL_ROWS_H_

#include <cstdint>
#include <vector>

#include "core/layout.h"

namespace ascpipe {

struct InitialRows {
  std::uint64_t seed = 0;
  layout::InitialKind kind = layout::kInitialConstant;
  double a = 0.0;  // a and b: see ascpipe/layout/initial_kinds.py
  double b = 0.0;
  double scale = 1.0;         // factor of the result before rounding
  std::vector<float> pool{};  // kInitialPool: float[pool_rows, dim], at least one row
  std::int64_t pool_rows = 0;

  // Writes the initial row of a key to `row`, which is float[dim].
  void Fill(std::int64_t key, std::int64_t dim, float* row) const;
};

// Returns 64 pseudo-random bits for (seed, key, column).
std::uint64_t InitialBits(std::uint64_t seed, std::int64_t key, std::int64_t column);
// Returns the pool row of a key. pool_rows is in [1, 2^32].
std::int64_t PoolRow(std::uint64_t seed, std::int64_t key, std::int64_t pool_rows);
// Returns the inverse of the normal distribution function at p, for 0 < p < 1.
double InverseNormal(double p);
// Returns the natural logarithm of a positive normal number.
double Log(double x);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_INITIAL_ROWS_H_
