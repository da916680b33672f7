// Atomic access to words in shared memory.  All reads and writes of these words use these functions.
//
// A store and the loads that pair with it have the same label, `SYNC name: store` and `SYNC name: load`, in C++ and
// Python; docs/internals/protocol.md lists them.
//
// std::atomic does not guarantee to work on memory that another language maps, so these functions use compiler
// builtins on plain words.
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

// Store with a full fence, so that a later load (is the owner of the bell asleep?) is not reordered before it.
template <typename T>
T Exchange(T* word, T value) {
  return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}

// Returns true if the word was `expected` and is now `desired`.  A full fence in both cases.
template <typename T>
bool CompareExchange(T* word, T expected, T desired) {
  return __atomic_compare_exchange_n(word, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

template <typename T>
T FetchAdd(T* word, T value) {
  return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
}

// A counter with one writer, shown by `ascpipe status`.
template <typename T>
void Count(T* counter, T by) {
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

inline void FullFence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_ATOMICS_H_
