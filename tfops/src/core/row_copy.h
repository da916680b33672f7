// Copies and prefetches single rows.
#ifndef ASCPIPE_CORE_ROW_COPY_H_
#define ASCPIPE_CORE_ROW_COPY_H_

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace ascpipe {

constexpr std::int64_t kRowsAhead = 12;  // prefetch distance in rows

// Copies floats. The common counts are constants, so that the compiler can use a few vector moves.
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
    case 128:
      std::memcpy(to, from, 128 * sizeof(float));
      break;
    default:
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  }
}

constexpr std::int64_t kLineFloats = 16, kMostPrefetched = 64;

// True if non-temporal stores are available. Use non-temporal stores for rows that are not read soon: the stores do not
// fetch the overwritten cache lines, and do not evict lines that are in use. After non-temporal stores, call the fence
// PastTheCache. Without the fence, other threads may not see the copies, even after a lock or an atomic store.
#ifdef __SSE2__
constexpr bool kCopiesPastTheCache = true;

// Copies with non-temporal stores. `to` is aligned to a cache line, and `count` is a multiple of kLineFloats.
inline void CopyPastTheCache(float* to, const float* from, std::int64_t count) {
  for (const float* const end = from + count; from < end; from += kLineFloats, to += kLineFloats) {
    const __m128 first = _mm_loadu_ps(from), second = _mm_loadu_ps(from + 4);
    const __m128 third = _mm_loadu_ps(from + 8), fourth = _mm_loadu_ps(from + 12);
    _mm_stream_ps(to, first);
    _mm_stream_ps(to + 4, second);
    _mm_stream_ps(to + 8, third);
    _mm_stream_ps(to + 12, fourth);
  }
}

inline void PastTheCache() { _mm_sfence(); }
#else
constexpr bool kCopiesPastTheCache = false;
inline void CopyPastTheCache(float* to, const float* from, std::int64_t count) { CopyFloats(to, from, count); }
inline void PastTheCache() {}
#endif

// Prefetches the beginning of a row that will be written. The hardware prefetcher of the processor reads the remainder
// of a long row.
inline void PrefetchRow(const float* row, std::int64_t floats) {
  for (std::int64_t at = 0; at < floats && at < kMostPrefetched; at += kLineFloats) __builtin_prefetch(row + at, 1);
}

// Prefetches the beginning of a row that will only be read, possibly by several threads.
inline void PrefetchRead(const float* row, std::int64_t floats) {
  for (std::int64_t at = 0; at < floats && at < kMostPrefetched; at += kLineFloats) __builtin_prefetch(row + at);
}

// Iterates over rows. The memory consists of blocks of `stride` floats. Each block begins with `side_by_side` adjacent
// rows of `dim` floats. The iteration begins at row `at`.
template <typename Float>
class SideBySide {
 public:
  SideBySide(Float* first, std::int64_t dim, std::int64_t stride, std::int64_t side_by_side, std::int64_t at)
      : dim_(dim),
        side_by_side_(side_by_side),
        gap_(stride - side_by_side * dim),
        left_(side_by_side - at % side_by_side),
        row_(first + at / side_by_side * stride + at % side_by_side * dim) {}

  Float* row() const { return row_; }

  void Next() {
    row_ += dim_;
    if (--left_ == 0) {
      left_ = side_by_side_;
      row_ += gap_;
    }
  }

 private:
  const std::int64_t dim_, side_by_side_, gap_;
  std::int64_t left_;
  Float* row_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ROW_COPY_H_
