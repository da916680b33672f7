// Prints the bits of initial rows: for each line "seed kind a b scale key dim" on stdin, `dim` hexadecimal words.
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/initial_rows.h"

int main() {
  ascpipe::InitialRows rows;
  int kind;
  std::int64_t key, dim;
  while (std::scanf("%" SCNu64 " %d %lf %lf %lf %" SCNd64 " %" SCNd64, &rows.seed, &kind, &rows.a, &rows.b,
                    &rows.scale, &key, &dim) == 7) {
    rows.kind = static_cast<ascpipe::InitialKind>(kind);
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
