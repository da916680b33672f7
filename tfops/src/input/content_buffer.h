// Content of a file of training data, decompressed and read through a buffer.
#ifndef ASCPIPE_INPUT_CONTENT_BUFFER_H_
#define ASCPIPE_INPUT_CONTENT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/core_status.h"
#include "core/private_memory.h"
#include "input/byte_source.h"
#include "input/data_file.h"
#include "input/inflated_source.h"

namespace ascpipe {

// The size of the buffer is 1 MiB, or larger if a record does not fit. A plain file whose content is kept in memory
// (Keep) needs no buffer. Only one thread at a time may use a ContentBuffer.
class ContentBuffer {
 public:
  // Takes ownership of an open file. `compression` must not be kDetect. Call Open before any other method.
  CoreStatus Open(std::unique_ptr<DataFile> file, Compression compression);

  const DataFile& file() const { return *file_; }
  Compression compression() const { return compression_; }
  bool is_plain() const { return compression_ == Compression::kNone; }
  std::int64_t position() const { return position_; }  // position in the content

  // The content that begins at the position. The first `available` bytes after the position are in memory.
  const char* at() const { return kept_ != nullptr ? kept_ + position_ : buffer_.get() + begin_; }
  std::size_t available() const {
    return kept_ != nullptr ? static_cast<std::size_t>(file_->stamp().bytes - position_) : filled_ - begin_;
  }

  // Reads until at least `count` bytes are available, or all bytes up to the end of the content.
  CoreStatus Fill(std::size_t count);

  // Moves the position forward by at most `available` bytes.
  void Advance(std::int64_t bytes) {
    if (kept_ == nullptr) begin_ += static_cast<std::size_t>(bytes);
    position_ += bytes;
  }

  // Moves the position in a plain file to `offset`, but not beyond the end of the file.
  void Jump(std::int64_t offset);

  // Reads from `content` instead of the plain file. `content` must contain all bytes of the file, and must stay valid
  // as long as the ContentBuffer exists. Reads do not detect changes of the file, so the caller must call
  // CheckUnchanged.
  void Keep(const char* content);

  // Prefetches the bytes at a position of a kept file.
  void Prefetch(std::int64_t offset) const {
    if (kept_ != nullptr && offset >= 0 && offset < file_->stamp().bytes) __builtin_prefetch(kept_ + offset);
  }

  // Announces that only the bytes of a plain file up to `offset` will be needed. One system call reads all bytes up to
  // `offset` if they fit into the buffer.
  void Expect(std::int64_t offset) { expected_end_ = offset; }

 private:
  CoreStatus Reserve(std::size_t count);

  std::unique_ptr<DataFile> file_;
  Compression compression_ = Compression::kNone;
  std::unique_ptr<ByteSource> source_;
  std::int64_t position_ = 0;
  const char* kept_ = nullptr;  // all bytes of the file; null: they are read through the buffer

  PrivateArray<char> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0, filled_ = 0;  // the content at position_ is in [begin_, filled_) of the buffer
  std::size_t read_ahead_ = 0;          // number of bytes that the next read requests beyond the bytes that are needed
  std::int64_t expected_end_ = 0;       // end of the bytes that will be needed; unknown unless it is after the position
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_CONTENT_BUFFER_H_
