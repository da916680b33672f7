#include "input/text_file.h"

#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

constexpr std::size_t kDetectedBytes = 4096;

bool IsZlibHeader(unsigned first, unsigned second) {
  return (first & 0x0f) == 8 && first >> 4 <= 7 && (first << 8 | second) % 31 == 0;
}

// A plain text may begin with the two bytes of a ZLIB header, for example "80". Therefore decompression is tried.
CoreStatus DetectCompression(const std::string& path, Compression* compression) {
  *compression = Compression::kNone;
  std::unique_ptr<DataFile> file;
  CoreStatus status = DataFile::Open(path, &file);
  unsigned char header[2];
  std::size_t got = 0;
  if (status.ok()) status = file->Read(0, sizeof(header), reinterpret_cast<char*>(header), &got);
  if (!status.ok() || got < sizeof(header)) return status;
  if (header[0] == 0x1f && header[1] == 0x8b) {
    *compression = Compression::kGzip;
  } else if (IsZlibHeader(header[0], header[1])) {
    ContentBuffer content;
    if (!content.Open(std::move(file), Compression::kZlib).ok()) return CoreStatus();
    if (content.Fill(kDetectedBytes).ok()) *compression = Compression::kZlib;
  }
  return CoreStatus();
}

}  // namespace

CoreStatus TextFile::Open(const std::string& path, const RecordFormat& format, Compression compression,
                          std::unique_ptr<TextFile>* file) {
  CoreStatus status = CheckFormat(format);
  if (status.ok() && compression == Compression::kDetect) status = DetectCompression(path, &compression);
  if (!status.ok()) return status;
  std::unique_ptr<DataFile> data;
  status = DataFile::Open(path, &data);
  if (!status.ok()) return status;
  std::unique_ptr<TextFile> opened(new TextFile(format));
  status = opened->content_.Open(std::move(data), compression);
  if (status.ok() && format.has_header != 0) {
    RecordPlace header;
    bool is_end;
    status = opened->Skip(&header, &is_end);
    opened->number_ = 0;
  }
  if (status.ok()) *file = std::move(opened);
  return status;
}

CoreStatus TextFile::Next(RecordPlace* place, ByteRange* data, bool* is_end) {
  std::size_t bytes;
  const CoreStatus status = FindEnd(&bytes);
  *is_end = status.ok() && bytes == 0;
  if (!status.ok() || *is_end) return status;
  *place = {number_, position(), static_cast<std::int64_t>(bytes)};
  *data = {content_.at(), bytes - LineEndBytes(content_.at(), bytes)};
  Advance(place->bytes);
  return CoreStatus();
}

CoreStatus TextFile::Skip(RecordPlace* place, bool* is_end) {
  ByteRange data;
  return Next(place, &data, is_end);
}

// Finds the end of the next record. At the end of the file, sets `bytes` to 0.
CoreStatus TextFile::FindEnd(std::size_t* bytes) {
  end_.Begin();
  for (std::size_t needed = 1;; needed = content_.available() + 1) {
    const CoreStatus status = content_.Fill(needed);
    if (!status.ok()) return status;
    if (content_.available() == 0) {
      *bytes = 0;
      return file().CheckUnchanged();
    }
    const bool is_last = content_.available() < needed;
    if (end_.Find(content_.at(), content_.available(), is_last, bytes)) break;
    if (content_.available() > static_cast<std::size_t>(kMostTextRecordBytes)) return TooLarge();
    if (is_last) return Unclosed();
  }
  return *bytes > static_cast<std::size_t>(kMostTextRecordBytes) ? TooLarge() : CoreStatus();
}

CoreStatus TextFile::ReadAt(const RecordPlace& place, ByteRange* data) {
  CoreStatus status = CheckPlace(place, 1, kMostTextRecordBytes);
  if (!status.ok()) return status;
  Jump(place);
  const auto bytes = static_cast<std::size_t>(place.bytes);
  status = content_.Fill(bytes);
  if (!status.ok()) return status;
  // Text files have no checksums. If the index belongs to other data, the records do not end where the index says.
  end_.Begin();
  std::size_t found = 0;
  const std::size_t line_end = LineEndBytes(content_.at(), bytes);
  const bool is_whole = end_.Find(content_.at(), bytes, true, &found) && found == bytes &&
                        (line_end > 0 || place.offset + place.bytes == file().stamp().bytes);
  if (!is_whole) {
    return Error(kE333, file().path(), ": record ", place.number, " at byte ", place.offset, " does not end after ",
                 place.bytes, " bytes as in the index. Build the index again");
  }
  *data = {content_.at(), bytes - line_end};
  Advance(place.bytes);
  return CoreStatus();
}

CoreStatus TextFile::Unclosed() const {
  return Error(kE330, file().path(), ": record ", number_, " at byte ", position(),
               content_.is_plain() ? "" : " of the decompressed content", " is damaged: the quote at byte ",
               position() + static_cast<std::int64_t>(end_.open_quote()),
               " begins a field, and no quote ends it before the end of the file. Close the quote, or read the file "
               "with use_quote_delim=False if quotes have no meaning in it");
}

CoreStatus TextFile::TooLarge() const {
  return Error(kE330, file().path(), ": record ", number_, " at byte ", position(),
               content_.is_plain() ? "" : " of the decompressed content", " is damaged: it has more than ",
               kMostTextRecordBytes,
               " bytes, the limit for a record of text. Check its quotes and line ends, or read "
               "the file with use_quote_delim=False if quotes have no meaning in it");
}

}  // namespace ascpipe
