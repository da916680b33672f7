// Result of an operation that can fail. The core does not use exceptions.
#ifndef ASCPIPE_CORE_CORE_STATUS_H_
#define ASCPIPE_CORE_CORE_STATUS_H_

#include <sstream>
#include <string>
#include <utility>

namespace ascpipe {

// All TensorFlow error codes that our ops may return. MonitoredSession retries ABORTED and UNAVAILABLE forever, and
// treats OUT_OF_RANGE as the end of the data.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kInvalidArgument = 3,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kInternal = 13,
  kDataLoss = 15,
};

class CoreStatus {
 public:
  CoreStatus() : code_(Code::kOk) {}
  CoreStatus(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Code code_;
  std::string text_;
};

inline void AppendTo(std::ostringstream*) {}
template <typename First, typename... Rest>
void AppendTo(std::ostringstream* out, const First& first, const Rest&... rest) {
  *out << first;
  AppendTo(out, rest...);
}

// Returns the concatenation of the arguments.
template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream out;
  AppendTo(&out, parts...);
  return out.str();
}

template <typename... Parts>
CoreStatus Error(Code code, const Parts&... parts) {
  return CoreStatus(code, Text(parts...));
}

// TensorFlow code and ascpipe number of an error (core/error_codes.gen.h). An error message begins with the number.
struct ErrorCode {
  Code code;
  const char* number;
};

template <typename... Parts>
CoreStatus Error(const ErrorCode& error, const Parts&... parts) {
  return CoreStatus(error.code, Text(error.number, ": ", parts...));
}

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CORE_STATUS_H_
