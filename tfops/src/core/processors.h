// Functions that are compiled for several processors; the loader picks the one that fits.
#ifndef ASCPIPE_CORE_PROCESSORS_H_
#define ASCPIPE_CORE_PROCESSORS_H_

#include <cstdint>
#include <type_traits>

// Uses wider registers where the processor has them, for loops whose operations give the same bits at any width.
// Functions called by such a function are compiled for them only if they are ASC_INLINE.  Off under sanitizers, which
// run before the loader can choose.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASC_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define ASC_FOR_EACH_PROCESSOR
#endif
#define ASC_INLINED __attribute__((always_inline))
#define ASC_INLINE inline ASC_INLINED

namespace ascpipe {

// Returns work(constant), an integral constant: the usual lengths of a row, else 0.  A constant length lets the
// compiler unroll a row, and copy it by a few vector moves.  `work` is a generic lambda with ASC_INLINED.
template <typename Work>
ASC_INLINE auto WithLength(std::int64_t dim, const Work& work) {
  switch (dim) {
    case 8:
      return work(std::integral_constant<std::int64_t, 8>());
    case 16:
      return work(std::integral_constant<std::int64_t, 16>());
    case 32:
      return work(std::integral_constant<std::int64_t, 32>());
    case 64:
      return work(std::integral_constant<std::int64_t, 64>());
    case 128:
      return work(std::integral_constant<std::int64_t, 128>());
    default:
      return work(std::integral_constant<std::int64_t, 0>());
  }
}

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_PROCESSORS_H_
