// Prints the bits of initial rows.  Each line on stdin is "seed kind a b scale key dim pool_rows pool...", in which the
// pool is pool_rows * dim hexadecimal words.  For each line, `dim` hexadecimal words are printed.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/initial_rows.h"

int main() {
  ascpipe::InitialRows rows;
  int kind;
  std::int64_t key, dim;
  while (std::scanf("%" SCNu64 " %d %lf %lf %lf %" SCNd64 " %" SCNd64 " %" SCNd64, &rows.seed, &kind, &rows.a, &rows.b,
                    &rows.scale, &key, &dim, &rows.pool_rows) == 8) {
    rows.kind = static_cast<ascpipe::layout::InitialKind>(kind);
    rows.pool.resize(static_cast<std::size_t>(rows.pool_rows * dim));
    for (float& value : rows.pool) {
      std::uint32_t bits;
      if (std::scanf("%" SCNx32, &bits) != 1) return 1;
      std::memcpy(&value, &bits, sizeof(value));
    }
    std::vector<float> row(static_cast<std::size_t>(dim));
    rows.Fill(key, dim, row.data());
    for (const float value : row) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      std::printf("%08" PRIx32 " ", bits);
    }
    std::printf("\n");
  }
  return 0;
}
