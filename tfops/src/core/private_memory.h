// Memory for large arrays of this process. Each array has a separate mapping.
#ifndef ASCPIPE_CORE_PRIVATE_MEMORY_H_
#define ASCPIPE_CORE_PRIVATE_MEMORY_H_

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ascpipe {

// Array that initially contains zeros. The pages of a PrivateArray are allocated on first access, and its destructor
// unmaps the pages. A PrivateArray does not use malloc, because malloc could keep freed memory in its per-thread
// arenas.
template <typename T>
class PrivateArray {
 public:
  PrivateArray() = default;
  // `get` returns null if there is not enough memory.
  explicit PrivateArray(std::int64_t count)
      : bytes_(static_cast<std::size_t>(std::max<std::int64_t>(count, 1)) * sizeof(T)) {
    void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) data_ = static_cast<T*>(memory);
  }
  ~PrivateArray() { Free(); }
  PrivateArray(const PrivateArray&) = delete;
  PrivateArray& operator=(const PrivateArray&) = delete;
  PrivateArray(PrivateArray&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  PrivateArray& operator=(PrivateArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void Free() {
    if (data_ != nullptr) munmap(data_, bytes_);
    data_ = nullptr;
  }

  T* get() const { return data_; }  // null: not enough memory, or no array

 private:
  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_PRIVATE_MEMORY_H_
