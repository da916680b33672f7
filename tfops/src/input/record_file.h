// Reader of TFRecord files.
//
// A record consists of the length of its data (8 bytes, little-endian), the masked CRC-32C of these 8 bytes, the data,
// and the masked CRC-32C of the data (https://www.tensorflow.org/tutorials/load_data/tfrecord).
#ifndef ASCPIPE_INPUT_RECORD_FILE_H_
#define ASCPIPE_INPUT_RECORD_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/private_memory.h"
#include "input/byte_source.h"
#include "input/data_file.h"
#include "input/inflated_source.h"
#include "input/wire.h"

namespace ascpipe {

constexpr std::int64_t kMostRecordBytes = std::int64_t{1} << 30;         // of the data of a record
constexpr std::int64_t kRecordHeaderBytes = 12, kRecordFooterBytes = 4;  // before and after the data
constexpr std::int64_t kRecordFrameBytes = kRecordHeaderBytes + kRecordFooterBytes;

// Position of a record in the content of a file.
struct RecordPlace {
  std::int64_t number;  // counted from 0
  std::int64_t offset;  // of the first byte of the header
  std::int64_t bytes;   // of header, data and footer together
};

// The reader has one open file, and a buffer of 1 MiB or the size of the largest record. Each error has the file, the
// record number, the byte offset, and the expected and the actual value. After an error, the position is unchanged. An
// object is used by one thread at a time.
class RecordFile {
 public:
  // Opens a file. kDetect reads the first bytes to find out the compression.
  static CoreStatus Open(const std::string& path, Compression compression, std::unique_ptr<RecordFile>* file);

  // Reads the next record and checks both checksums. `data` is valid until the next call. At the end of the file, sets
  // `is_end` and nothing else.
  CoreStatus Next(RecordPlace* place, ByteRange* data, bool* is_end);

  // Skips the next record. Only its length is read and checked, so a record with damaged data can be skipped.
  CoreStatus Skip(RecordPlace* place, bool* is_end);

  // Reads the record at a place, which an index has. The next record of Next is the record after it. Compressed files
  // cannot be read at a place.
  CoreStatus ReadAt(const RecordPlace& place, ByteRange* data);

  const DataFile& file() const { return *file_; }
  Compression compression() const { return compression_; }
  std::int64_t position() const { return position_; }  // offset of the next record

 private:
  RecordFile(std::unique_ptr<DataFile> file, Compression compression)
      : file_(std::move(file)), compression_(compression) {}

  bool is_plain() const { return compression_ == Compression::kNone; }
  std::size_t available() const { return filled_ - begin_; }
  const char* at() const { return buffer_.get() + begin_; }

  CoreStatus Fill(std::size_t count);
  CoreStatus Reserve(std::size_t count);
  CoreStatus ReadHeader(std::int64_t* length, bool* is_end);
  CoreStatus ReadData(std::int64_t length, ByteRange* data);
  void Advance(std::int64_t bytes);
  void Jump(std::int64_t number, std::int64_t offset);

  template <typename... Parts>
  CoreStatus Damaged(const Parts&... parts) const;

  const std::unique_ptr<DataFile> file_;
  const Compression compression_;
  std::unique_ptr<ByteSource> source_;
  std::int64_t number_ = 0;    // of the next record
  std::int64_t position_ = 0;  // of the next record in the content

  PrivateArray<char> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0, filled_ = 0;  // the content at position_ is in [begin_, filled_) of the buffer
  std::size_t read_ahead_;              // number of bytes that the next read requests beyond the bytes that are needed
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_FILE_H_
