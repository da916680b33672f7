// Common functions of the C interface.
//
// Every function with an `err` argument returns 0 if it succeeds. A function that fails writes a UTF-8 text to
// err[err_bytes] and returns a TensorFlow error code. A function that releases an object resets its number to -1.
#ifndef ASCPIPE_BRIDGE_C_API_H_
#define ASCPIPE_BRIDGE_C_API_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/core_status.h"

#define ASC_EXPORT extern "C" __attribute__((visibility("default")))

namespace ascpipe {

inline int Answer(const CoreStatus& status, char* err, int err_bytes) {
  if (err != nullptr && err_bytes > 0) {
    const std::size_t bytes = std::min(status.text().size(), static_cast<std::size_t>(err_bytes - 1));
    std::memcpy(err, status.text().data(), bytes);
    err[bytes] = '\0';
  }
  return static_cast<int>(status.code());
}

// Returns *number and resets it, because Python may repeat the release of an object after an interrupt.
inline std::int64_t TakeNumber(std::int64_t* number) {
  const std::int64_t taken = *number;
  *number = -1;
  return taken;
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_C_API_H_
