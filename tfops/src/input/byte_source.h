// Stream of bytes: the content of a file, or its decompressed content.
#ifndef ASCPIPE_INPUT_BYTE_SOURCE_H_
#define ASCPIPE_INPUT_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "core/core_status.h"
#include "input/data_file.h"

namespace ascpipe {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Reads the next bytes: at least one and at most `count`. Reads no bytes at the end of the stream.
  virtual CoreStatus Read(std::size_t count, char* buffer, std::size_t* got) = 0;

  // Changes the position of the next Read. Returns false if the source can only be read from its beginning to its end.
  virtual bool Seek(std::int64_t offset) = 0;
};

// Content of a file. The file must outlive the source.
class PlainSource : public ByteSource {
 public:
  explicit PlainSource(const DataFile* file) : file_(file) {}

  CoreStatus Read(std::size_t count, char* buffer, std::size_t* got) override {
    const CoreStatus status = file_->Read(position_, count, buffer, got);
    if (status.ok()) position_ += static_cast<std::int64_t>(*got);
    return status;
  }

  bool Seek(std::int64_t offset) override {
    position_ = offset;
    return true;
  }

 private:
  const DataFile* const file_;
  std::int64_t position_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_BYTE_SOURCE_H_
