// Reader of text files (CSV, TSV).
#ifndef ASCPIPE_INPUT_TEXT_FILE_H_
#define ASCPIPE_INPUT_TEXT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "input/record_end.h"
#include "input/record_reader.h"
#include "input/wire.h"

namespace ascpipe {

constexpr std::int64_t kMostTextRecordBytes = std::int64_t{1} << 26;  // including the line end

// The records equal the records of tf.data.experimental.CsvDataset (input/record_end.h), without their line ends. A
// RecordPlace includes the line end. Bytes are not decoded. The reader does not check the fields of a record; the
// parser of the fields does. An empty file without a header is valid, but CsvDataset rejects it.
class TextFile final : public RecordReader {
 public:
  // Opens a file, and skips its header. With kDetect, the first bytes of the file determine the compression.
  static CoreStatus Open(const std::string& path, const RecordFormat& format, Compression compression,
                         std::unique_ptr<TextFile>* file);

  // Returns kE330 if a quote is not closed before the end of the file, or if the record is too large.
  CoreStatus Next(RecordPlace* place, ByteRange* data, bool* is_end) override;
  CoreStatus Skip(RecordPlace* place, bool* is_end) override;
  CoreStatus ReadAt(const RecordPlace& place, ByteRange* data) override;

 private:
  explicit TextFile(const RecordFormat& format)
      : RecordReader(format), end_(static_cast<char>(format.delimiter), format.use_quotes != 0) {}

  CoreStatus FindEnd(std::size_t* bytes);
  CoreStatus Unclosed() const;
  CoreStatus TooLarge() const;

  RecordEnd end_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_TEXT_FILE_H_
