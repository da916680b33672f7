#include "input/record_reader.h"

#include <utility>

#include "core/error_codes.gen.h"
#include "input/record_file.h"
#include "input/text_file.h"

namespace ascpipe {

CoreStatus CheckFormat(const RecordFormat& format) {
  const int byte = format.delimiter;
  if (format.kind == static_cast<int>(RecordKind::kTfRecord)) return CoreStatus();
  if (IsText(format) && byte >= 0 && byte <= 255 && byte != '"' && byte != '\n' && byte != '\r') return CoreStatus();
  return Error(kE332, "There is no format of records with the number ", format.kind, " and the delimiter ", byte,
               ". Nothing was read. Pass a delimiter of one byte that is neither a quote nor the end of a line");
}

std::string Described(const RecordFormat& format) {
  if (!IsText(format)) return "TFRecord";
  const char delimiter = static_cast<char>(format.delimiter);
  return Text("text (", delimiter == '\t' ? std::string("tabs") : Text("delimiter \"", delimiter, "\""),
              format.use_quotes != 0 ? ", quotes" : ", no quotes", format.has_header != 0 ? ", header" : ", no header",
              ")");
}

std::int64_t FrameBytes(const RecordFormat& format) { return IsText(format) ? 0 : kRecordFrameBytes; }

CoreStatus RecordReader::Open(const std::string& path, const RecordFormat& format, Compression compression,
                              std::unique_ptr<RecordReader>* reader) {
  if (IsText(format)) {
    std::unique_ptr<TextFile> opened;
    const CoreStatus status = TextFile::Open(path, format, compression, &opened);
    *reader = std::move(opened);
    return status;
  }
  CoreStatus status = CheckFormat(format);
  if (!status.ok()) return status;
  std::unique_ptr<RecordFile> opened;
  status = RecordFile::Open(path, compression, &opened);
  *reader = std::move(opened);
  return status;
}

CoreStatus RecordReader::CheckPlace(const RecordPlace& place, std::int64_t least, std::int64_t most) const {
  if (!content_.is_plain()) {
    return Error(kE333, file().path(),
                 " is compressed, and its records can only be read in order. Decompress the file");
  }
  const std::int64_t bytes = file().stamp().bytes;
  if (place.number >= 0 && place.offset >= 0 && place.bytes >= least && place.offset <= bytes &&
      place.bytes <= bytes - place.offset && place.bytes <= most) {
    return CoreStatus();
  }
  return Error(kE333, file().path(), ": there is no record ", place.number, " of ", place.bytes, " bytes at byte ",
               place.offset, ", because the file has ", bytes, " bytes. Build the index again");
}

}  // namespace ascpipe
