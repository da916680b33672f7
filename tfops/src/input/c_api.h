// Common functions of the C interface of training data.
//
// Every call with an `err` argument returns 0 if it succeeds. A call that fails writes a UTF-8 text to err[err_bytes]
// and returns the number of a TensorFlow error code.
#ifndef ASCPIPE_INPUT_C_API_H_
#define ASCPIPE_INPUT_C_API_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>

#include "core/core_status.h"

#define ASC_EXPORT extern "C" __attribute__((visibility("default")))

namespace ascpipe {

inline void WriteText(const std::string& text, char* err, int err_bytes) {
  if (err == nullptr || err_bytes <= 0) return;
  const std::size_t bytes = std::min(text.size(), static_cast<std::size_t>(err_bytes - 1));
  std::memcpy(err, text.data(), bytes);
  err[bytes] = '\0';
}

inline int Answer(const CoreStatus& status, char* err, int err_bytes) {
  WriteText(status.text(), err, err_bytes);
  return static_cast<int>(status.code());
}

// Transfers the ownership of an opened object to the caller.
template <typename Object>
int Give(const CoreStatus& status, std::unique_ptr<Object> opened, Object** out, char* err, int err_bytes) {
  if (status.ok()) *out = opened.release();
  return Answer(status, err, err_bytes);
}

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_C_API_H_
