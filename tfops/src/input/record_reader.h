// Interface of the readers of training data, which read a file as a sequence of records.
#ifndef ASCPIPE_INPUT_RECORD_READER_H_
#define ASCPIPE_INPUT_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "input/content_buffer.h"
#include "input/wire.h"

namespace ascpipe {

enum class RecordKind : int { kTfRecord = 0, kText = 1 };  // values of RecordFormat::kind

inline RecordFormat TfRecordFormat() { return {static_cast<int>(RecordKind::kTfRecord), 0, 0, 0}; }
inline RecordFormat TextFormat(char delimiter, bool use_quotes, bool has_header) {
  return {static_cast<int>(RecordKind::kText), static_cast<unsigned char>(delimiter), use_quotes ? 1 : 0,
          has_header ? 1 : 0};
}
inline bool IsText(const RecordFormat& format) { return format.kind == static_cast<int>(RecordKind::kText); }

// Returns kE332 if no reader supports the format.
CoreStatus CheckFormat(const RecordFormat& format);

// Returns a description for error messages, for example `text (delimiter ",", quotes, no header)`.
std::string Described(const RecordFormat& format);

// Returns the number of bytes per record that the lengths in an index do not include.
std::int64_t FrameBytes(const RecordFormat& format);

// Position of a record in the content of a file.
struct RecordPlace {
  std::int64_t number;  // counted from 0, without the header of a text file
  std::int64_t offset;  // offset of the first byte
  std::int64_t bytes;   // number of bytes up to the next record
};

// The reader has one open file. Each error message contains the file, the record number and the byte offset. After an
// error, the position of the reader is unchanged. Only one thread at a time may use a reader.
class RecordReader {
 public:
  // Opens a file. With kDetect, the first bytes of the file determine the compression.
  static CoreStatus Open(const std::string& path, const RecordFormat& format, Compression compression,
                         std::unique_ptr<RecordReader>* reader);
  virtual ~RecordReader() = default;

  // Reads and checks the next record. `data` is valid until the next call. At the end of the file, sets only `is_end`.
  virtual CoreStatus Next(RecordPlace* place, ByteRange* data, bool* is_end) = 0;

  // Skips the next record. Reads and checks as little of the record as possible.
  virtual CoreStatus Skip(RecordPlace* place, bool* is_end) = 0;

  // Reads the record at a position that an index contains. After ReadAt, Next returns the following record. Compressed
  // files do not support random access. Call file().CheckUnchanged() after the last of several calls of ReadAt.
  virtual CoreStatus ReadAt(const RecordPlace& place, ByteRange* data) = 0;

  // Announces that only the bytes up to `offset` will be read. After Expect, ReadAt reads ahead to `offset`, but not
  // beyond it.
  void Expect(std::int64_t offset) { content_.Expect(offset); }

  // Reads from `content` instead of the plain file. `content` must contain all bytes of the file as long as the reader
  // exists. After Keep, ReadAt returns data in `content`.
  void Keep(const char* content) { content_.Keep(content); }
  // Prefetches the beginning of a record of a kept file. `place` may be invalid.
  void Prefetch(const RecordPlace& place) const { content_.Prefetch(place.offset); }

  const DataFile& file() const { return content_.file(); }
  Compression compression() const { return content_.compression(); }
  std::int64_t position() const { return content_.position(); }  // offset of the next record
  const RecordFormat& format() const { return format_; }

 protected:
  explicit RecordReader(const RecordFormat& format) : format_(format) {}

  // Returns kE333 if `place` is outside the file, or if the file is compressed.
  CoreStatus CheckPlace(const RecordPlace& place, std::int64_t least, std::int64_t most) const;

  void Jump(const RecordPlace& place) {
    content_.Jump(place.offset);
    number_ = place.number;
  }
  void Advance(std::int64_t bytes) {
    content_.Advance(bytes);
    ++number_;
  }

  const RecordFormat format_;
  ContentBuffer content_;
  std::int64_t number_ = 0;  // number of the next record
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_READER_H_
