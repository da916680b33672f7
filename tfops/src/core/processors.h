// Function multiversioning: functions are compiled for several processors, and the loader selects a version.
#ifndef ASCPIPE_CORE_PROCESSORS_H_
#define ASCPIPE_CORE_PROCESSORS_H_

#include <cstdint>
#include <type_traits>

// Compiles another version of a function for processors with wider registers. Use the macro for loops whose result does
// not depend on the register width. A function that is called in the loop is compiled for each processor only if it is
// ASC_INLINE. The macro is empty in builds with sanitizers, because code of sanitizers runs before the loader resolves
// versions.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASC_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define ASC_FOR_EACH_PROCESSOR
#endif
#define ASC_INLINED __attribute__((always_inline))
#define ASC_INLINE inline ASC_INLINED

namespace ascpipe {

// Calls `work` with an integral constant and returns the result. The constant is `dim` if `dim` is a common row length,
// otherwise 0. The compiler can unroll a loop over a row of constant length. `work` must be a generic lambda with the
// attribute ASC_INLINED.
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
