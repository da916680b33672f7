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
#include "input/record_reader.h"
#include "input/wire.h"

namespace ascpipe {

constexpr std::int64_t kMostRecordBytes = std::int64_t{1} << 30;         // maximum size of a record's data
constexpr std::int64_t kRecordHeaderBytes = 12, kRecordFooterBytes = 4;  // bytes before and after the data
constexpr std::int64_t kRecordFrameBytes = kRecordHeaderBytes + kRecordFooterBytes;

// Returns the masked checksum of some bytes.
std::uint32_t MaskedCrc(const char* data, std::size_t size);

// The error of a damaged record contains the expected and the actual checksum or size. A RecordPlace begins with the
// header of the record and ends with the footer.
class RecordFile final : public RecordReader {
 public:
  // Opens a file. With kDetect, the first bytes of the file determine the compression.
  static CoreStatus Open(const std::string& path, Compression compression, std::unique_ptr<RecordFile>* file);

  // Reads the next record and checks both checksums.
  CoreStatus Next(RecordPlace* place, ByteRange* data, bool* is_end) override;

  // Skips the next record. Only the length of the record is read and checked, so a record with damaged data can be
  // skipped.
  CoreStatus Skip(RecordPlace* place, bool* is_end) override;

  CoreStatus ReadAt(const RecordPlace& place, ByteRange* data) override;

 private:
  RecordFile() : RecordReader(TfRecordFormat()) {}

  CoreStatus ReadHeader(std::int64_t* length, bool* is_end);
  CoreStatus ReadData(std::int64_t length, ByteRange* data);

  template <typename... Parts>
  CoreStatus Damaged(const Parts&... parts) const;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_FILE_H_
