#include "input/content_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kPageBytes = 4096;
constexpr std::int64_t kFarBytes = 1 << 12;  // a longer gap between two reads is skipped

}  // namespace

CoreStatus ContentBuffer::Open(std::unique_ptr<DataFile> file, Compression compression) {
  file_ = std::move(file);
  compression_ = compression;
  read_ahead_ = kBufferBytes;
  if (!is_plain()) return OpenInflated(file_.get(), compression, &source_);
  source_.reset(new PlainSource(file_.get()));
  return CoreStatus();
}

void ContentBuffer::Jump(std::int64_t offset) {
  const std::int64_t distance = offset - position_;
  if (kept_ != nullptr) {
    // Nothing is in the buffer.
  } else if (distance >= -static_cast<std::int64_t>(begin_) && distance <= static_cast<std::int64_t>(available())) {
    begin_ = static_cast<std::size_t>(static_cast<std::int64_t>(begin_) + distance);
  } else {
    const std::int64_t gap = distance - static_cast<std::int64_t>(available());
    if (gap < 0 || gap > kFarBytes) read_ahead_ = 0;
    begin_ = filled_ = 0;
    source_->Seek(offset);
  }
  position_ = offset;
}

void ContentBuffer::Keep(const char* content) {
  kept_ = content;
  buffer_ = PrivateArray<char>();
  capacity_ = begin_ = filled_ = 0;
}

CoreStatus ContentBuffer::Fill(std::size_t count) {
  if (available() >= count || kept_ != nullptr) return CoreStatus();
  const CoreStatus status = Reserve(count);
  if (!status.ok()) return status;
  const bool is_expected = expected_end_ > position_;
  const std::size_t ahead = is_expected ? static_cast<std::size_t>(expected_end_ - position_) : read_ahead_;
  while (available() < count) {
    const std::size_t missing = ahead - std::min(ahead, is_expected ? available() : 0);
    const std::size_t wanted = std::min(std::max(count - available(), missing), capacity_ - filled_);
    std::size_t got;
    const CoreStatus read = source_->Read(wanted, buffer_.get() + filled_, &got);
    if (!read.ok()) return read;
    if (got == 0) break;
    filled_ += got;
  }
  if (!is_expected) read_ahead_ = std::min(std::max(2 * read_ahead_, kPageBytes), kBufferBytes);
  return CoreStatus();
}

// Makes room for `count` bytes at the position. Parts of the buffer that were never written occupy no memory.
CoreStatus ContentBuffer::Reserve(std::size_t count) {
  if (count <= capacity_) {
    if (begin_ > 0) std::memmove(buffer_.get(), buffer_.get() + begin_, available());
  } else {
    const std::size_t larger = std::max({count + kPageBytes, kBufferBytes, 2 * capacity_});
    PrivateArray<char> buffer(static_cast<std::int64_t>(larger));
    if (buffer.get() == nullptr) {
      return Error(kE332, file_->path(), " cannot be read: there is no memory for the record of ", count,
                   " bytes at byte ", position_, ". Free some memory, or write smaller records");
    }
    if (available() > 0) std::memcpy(buffer.get(), buffer_.get() + begin_, available());
    buffer_ = std::move(buffer);
    capacity_ = larger;
  }
  filled_ = available();
  begin_ = 0;
  return CoreStatus();
}

}  // namespace ascpipe
