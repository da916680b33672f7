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

// The buffer has 1 MiB, or the size of the largest record. A plain file whose content is kept in memory (Keep) needs no
// buffer. An object is used by one thread at a time.
class ContentBuffer {
 public:
  // Takes ownership of an open file. `compression` must not be kDetect. Call Open before any other method.
  CoreStatus Open(std::unique_ptr<DataFile> file, Compression compression);

  const DataFile& file() const { return *file_; }
  Compression compression() const { return compression_; }
  bool is_plain() const { return compression_ == Compression::kNone; }
  std::int64_t position() const { return position_; }  // position in the content

  // The content at the position. The first `available` bytes of this content are in memory.
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

  // Moves the position in a plain file to at most its end.
  void Jump(std::int64_t offset);

  // Reads from `content` instead of the plain file. `content` must contain all bytes of the file, and must stay valid
  // as long as this object exists. Reads do not detect changes of the file, so the caller must call CheckUnchanged.
  void Keep(const char* content);

  // Fetches the bytes at a position of a kept file into the cache of the processor.
  void Prefetch(std::int64_t offset) const {
    if (kept_ != nullptr && offset >= 0 && offset < file_->stamp().bytes) __builtin_prefetch(kept_ + offset);
  }

  // Announces that all bytes of a plain file up to `offset` will be needed, and no bytes after `offset`. One system
  // call reads these bytes if the buffer has room for all of them.
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
