// Functions that are compiled for several processors; the loader picks the one that fits.
#ifndef ASCPIPE_CORE_PROCESSORS_H_
#define ASCPIPE_CORE_PROCESSORS_H_

// Uses wider registers where the processor has them, for loops whose operations give the same bits at any width.
// Functions called by such a function are compiled for them only if they are ASC_INLINE.  Off under sanitizers, which
// run before the loader can choose.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASC_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define ASC_FOR_EACH_PROCESSOR
#endif
#define ASC_INLINE inline __attribute__((always_inline))

#endif  // ASCPIPE_CORE_PROCESSORS_H_
