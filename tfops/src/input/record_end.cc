#include "input/record_end.h"

#include <cstring>

namespace ascpipe {
namespace {

const char* Search(const char* data, char byte, std::size_t size) {
  return static_cast<const char*>(std::memchr(data, byte, size));
}

}  // namespace

bool RecordEnd::Find(const char* data, std::size_t size, bool is_last, std::size_t* bytes) {
  // Most records have no quotes. Three calls of memchr are faster than a loop over the bytes.
  const char* const newline = scanned_ == 0 ? Search(data, '\n', size) : nullptr;
  if (newline == nullptr) return FindSlowly(data, size, is_last, bytes);
  const auto line = static_cast<std::size_t>(newline - data);
  if (use_quotes_ && Search(data, '"', line) != nullptr) return FindSlowly(data, size, is_last, bytes);
  const char* const cr = Search(data, '\r', line);
  *bytes = cr == nullptr || cr + 1 == newline ? line + 1 : static_cast<std::size_t>(cr + 1 - data);
  return true;
}

bool RecordEnd::FindSlowly(const char* data, std::size_t size, bool is_last, std::size_t* bytes) {
  std::size_t i = scanned_;
  while (i < size) {
    const char byte = data[i];
    switch (state_) {
      case State::kFieldStart:
        if (use_quotes_ && byte == '"') {
          quote_ = i++;
          state_ = State::kQuoted;
        } else {
          state_ = State::kPlain;
        }
        break;
      case State::kQuoted: {
        const char* const quote = Search(data + i, '"', size - i);
        i = quote == nullptr ? size : static_cast<std::size_t>(quote - data) + 1;
        if (quote != nullptr) state_ = State::kQuoteInQuoted;
        break;
      }
      case State::kPlain:
      case State::kQuoteInQuoted:
        ++i;
        if (byte == delimiter_) {
          state_ = State::kFieldStart;
        } else if (byte == '\n') {
          *bytes = i;
          return true;
        } else if (byte == '\r') {
          state_ = State::kReturn;
        } else if (state_ == State::kQuoteInQuoted) {
          state_ = State::kQuoted;  // an escaped quote, or a quote that the parser rejects
        }
        break;
      case State::kReturn:
        *bytes = byte == '\n' ? i + 1 : i;
        return true;
    }
  }
  scanned_ = size;
  *bytes = size;
  return is_last && state_ != State::kQuoted;
}

}  // namespace ascpipe
