// Copies of single rows, which lie anywhere in memory.
#ifndef ASCPIPE_CORE_ROW_COPY_H_
#define ASCPIPE_CORE_ROW_COPY_H_

#include <cstdint>
#include <cstring>

namespace ascpipe {

constexpr std::int64_t kRowsAhead = 8;  // rows asked for before they are moved

// A constant size lets the compiler copy by a few vector moves.
inline void CopyFloats(float* to, const float* from, std::int64_t count) {
  switch (count) {
    case 1:
      *to = *from;
      break;
    case 8:
      std::memcpy(to, from, 8 * sizeof(float));
      break;
    case 16:
      std::memcpy(to, from, 16 * sizeof(float));
      break;
    case 32:
      std::memcpy(to, from, 32 * sizeof(float));
      break;
    case 64:
      std::memcpy(to, from, 64 * sizeof(float));
      break;
    default:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}

// Asks for the beginning of a row; the rest of a long one comes by itself.
inline void PrefetchRow(const float* row, std::int64_t floats) {
  constexpr std::int64_t kLineFloats = 16, kMostFloats = 64;
  for (std::int64_t at = 0; at < floats && at < kMostFloats; at += kLineFloats) __builtin_prefetch(row + at, 1);
}

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_COPY_H_
