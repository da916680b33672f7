// Atomic access to words in shared memory. Read and write words in shared memory only with the functions of this file.
//
// Paired stores and loads have the same label in C++ and Python: `SYNC name: store` and `SYNC name: load`.
// docs/internals/protocol.md lists the labels.
//
// The functions use compiler builtins on plain words, because std::atomic is not guaranteed to work on memory that
// another language maps.
#ifndef ASCPIPE_CORE_ATOMICS_H_
#define ASCPIPE_CORE_ATOMICS_H_

#include <cstdint>

namespace ascpipe {

template <typename T>
T LoadAcquire(const T* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

template <typename T>
void StoreRelease(T* word, T value) {
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

// Stores a value with a full fence. Later loads, for example of a bell's `waiting`, are not reordered before the store.
template <typename T>
T Exchange(T* word, T value) {
  return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

// Sets *word to `desired` if *word is `expected`. Returns true if *word was `expected`. CompareExchange is a full fence
// even if it does not set *word.
template <typename T>
bool CompareExchange(T* word, T expected, T desired) {
  return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

template <typename T>
T FetchAdd(T* word, T value) {
  return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
}

// Adds `by` to a counter that has only one writer.
template <typename T>
void Count(T* counter, T by) {
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

inline void FullFence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ATOMICS_H_
