// Function multiversioning: functions are compiled for several processors, and the loader picks a version.
#ifndef ASCPIPE_CORE_PROCESSORS_H_
#define ASCPIPE_CORE_PROCESSORS_H_

#include <cstdint>
#include <type_traits>

// Uses wider registers if the processor has them, for loops with the same result at any width.  Called functions are
// multiversioned only if they are ASC_INLINE.  Disabled under sanitizers, which run before the loader resolves
// versions.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASC_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define ASC_FOR_EACH_PROCESSOR
#endif
#define ASC_INLINED __attribute__((always_inline))
#define ASC_INLINE inline ASC_INLINED

namespace ascpipe {

// Returns work(constant) with an integral constant: the length for common row lengths, otherwise 0.  A constant length
// lets the compiler unroll the loop over a row.  `work` is a generic lambda with ASC_INLINED.
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
