// Functions that are compiled for several processors; the loader takes the one that fits.
#ifndef ASCPIPE_CORE_PROCESSORS_H_
#define ASCPIPE_CORE_PROCESSORS_H_

// Wider registers where the processor has them, for loops whose operations give the same bits at any width.  What such
// a function calls is compiled so only where it is ASC_INLINE.  The sanitizers run before the loader may choose.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define ASC_FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define ASC_FOR_EACH_PROCESSOR
#endif
#define ASC_INLINE inline __attribute__((always_inline))

#endif  // ASCPIPE_CORE_PROCESSORS_H_
