#include "input/record_file.h"

#include <cstring>
#include <utility>

#include "core/crc32c.h"
#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

// The machine is little-endian, like the TFRecord format.
template <typename Number>
Number NumberAt(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

bool HasLengthChecksum(const char* header) {
  return MaskedCrc(header, sizeof(std::uint64_t)) == NumberAt<std::uint32_t>(header + sizeof(std::uint64_t));
}

// A plain file may begin with the same bytes as a compressed file. Therefore a file is treated as compressed only if
// the checksum of its first length is wrong.
Compression DetectedCompression(const char* bytes, std::size_t count) {
  if (count < 2 || (count >= static_cast<std::size_t>(kRecordHeaderBytes) && HasLengthChecksum(bytes))) {
    return Compression::kNone;
  }
  const unsigned first = static_cast<unsigned char>(bytes[0]), second = static_cast<unsigned char>(bytes[1]);
  if (first == 0x1f && second == 0x8b) return Compression::kGzip;
  const bool is_zlib = (first & 0x0f) == 8 && first >> 4 <= 7 && (first << 8 | second) % 31 == 0;
  return is_zlib ? Compression::kZlib : Compression::kNone;
}

}  // namespace

// TFRecord files contain masked checksums, because a CRC over bytes that include their own CRC is a constant.
std::uint32_t MaskedCrc(const char* data, std::size_t size) {
  const std::uint32_t crc = Crc32c(data, size);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

CoreStatus RecordFile::Open(const std::string& path, Compression compression, std::unique_ptr<RecordFile>* file) {
  std::unique_ptr<DataFile> data;
  CoreStatus status = DataFile::Open(path, &data);
  if (!status.ok()) return status;
  if (compression == Compression::kDetect) {
    char header[kRecordHeaderBytes];
    std::size_t got;
    status = data->Read(0, sizeof(header), header, &got);
    if (!status.ok()) return status;
    compression = DetectedCompression(header, got);
  }
  std::unique_ptr<RecordFile> opened(new RecordFile);
  status = opened->content_.Open(std::move(data), compression);
  if (status.ok()) *file = std::move(opened);
  return status;
}

template <typename... Parts>
CoreStatus RecordFile::Damaged(const Parts&... parts) const {
  return Error(kE330, file().path(), ": record ", number_, " at byte ", position(),
               content_.is_plain() ? "" : " of the decompressed content", " is damaged: ", parts...,
               ". Write or copy the file again; `ascpipe data check` lists its damaged records");
}

CoreStatus RecordFile::Next(RecordPlace* place, ByteRange* data, bool* is_end) {
  std::int64_t length;
  CoreStatus status = ReadHeader(&length, is_end);
  if (!status.ok() || *is_end) return status;
  status = ReadData(length, data);
  if (!status.ok()) return status;
  *place = {number_, position(), length + kRecordFrameBytes};
  Advance(place->bytes);
  return CoreStatus();
}

CoreStatus RecordFile::Skip(RecordPlace* place, bool* is_end) {
  std::int64_t length;
  CoreStatus status = ReadHeader(&length, is_end);
  if (!status.ok() || *is_end) return status;
  *place = {number_, position(), length + kRecordFrameBytes};
  if (content_.is_plain()) {
    Jump({number_ + 1, position() + place->bytes, 0});
    return CoreStatus();
  }
  status = content_.Fill(static_cast<std::size_t>(place->bytes));
  if (!status.ok()) return status;
  if (content_.available() < static_cast<std::size_t>(place->bytes)) {
    return Damaged("expected ", length, " bytes of data and a checksum, found only ", content_.available(),
                   " bytes of both");
  }
  Advance(place->bytes);
  return CoreStatus();
}

CoreStatus RecordFile::ReadAt(const RecordPlace& place, ByteRange* data) {
  CoreStatus status = CheckPlace(place, kRecordFrameBytes, kMostRecordBytes + kRecordFrameBytes);
  if (!status.ok()) return status;
  Jump(place);
  status = content_.Fill(static_cast<std::size_t>(place.bytes));
  if (!status.ok()) return status;
  std::int64_t length;
  bool is_end;
  status = ReadHeader(&length, &is_end);
  if (!status.ok()) return status;
  if (length + kRecordFrameBytes != place.bytes) {
    return Error(kE333, file().path(), ": record ", place.number, " at byte ", place.offset, " has ",
                 length + kRecordFrameBytes, " bytes, but the index has ", place.bytes, ". Build the index again");
  }
  status = ReadData(length, data);
  if (status.ok()) Advance(place.bytes);
  return status;
}

CoreStatus RecordFile::ReadHeader(std::int64_t* length, bool* is_end) {
  CoreStatus status = content_.Fill(static_cast<std::size_t>(kRecordHeaderBytes));
  if (!status.ok()) return status;
  *is_end = content_.available() == 0;
  if (*is_end) return file().CheckUnchanged();
  if (content_.available() < static_cast<std::size_t>(kRecordHeaderBytes)) {
    return Damaged("expected a header of ", kRecordHeaderBytes, " bytes, found only ", content_.available(),
                   " bytes before the end");
  }
  const std::uint64_t found = NumberAt<std::uint64_t>(content_.at());
  if (!HasLengthChecksum(content_.at())) {
    return Damaged("the checksum of its length (", found, ") is wrong: expected ",
                   MaskedCrc(content_.at(), sizeof(found)), ", found ",
                   NumberAt<std::uint32_t>(content_.at() + sizeof(found)),
                   number_ == 0 ? ". Perhaps the file is not a TFRecord file, or has another compression" : "");
  }
  if (found > static_cast<std::uint64_t>(kMostRecordBytes)) {
    return Damaged("its length is ", found, " bytes, and the limit is ", kMostRecordBytes);
  }
  *length = static_cast<std::int64_t>(found);
  const std::int64_t left = file().stamp().bytes - position() - kRecordFrameBytes;
  if (content_.is_plain() && *length > left) {
    return Damaged("expected ", *length, " bytes of data and a checksum, but the file of ", file().stamp().bytes,
                   " bytes ends ", *length - left, " bytes too early");
  }
  return CoreStatus();
}

CoreStatus RecordFile::ReadData(std::int64_t length, ByteRange* data) {
  const std::size_t needed = static_cast<std::size_t>(length + kRecordFrameBytes);
  CoreStatus status = content_.Fill(needed);
  if (!status.ok()) return status;
  if (content_.available() < needed) {
    return Damaged("expected ", length, " bytes of data and a checksum, found only ",
                   content_.available() - static_cast<std::size_t>(kRecordHeaderBytes), " bytes of both");
  }
  const char* const begin = content_.at() + kRecordHeaderBytes;
  const std::uint32_t expected = MaskedCrc(begin, static_cast<std::size_t>(length));
  const std::uint32_t found = NumberAt<std::uint32_t>(begin + length);
  if (expected != found) {
    return Damaged("the checksum of its ", length, " bytes of data is wrong: expected ", expected, ", found ", found);
  }
  *data = {begin, static_cast<std::size_t>(length)};
  return CoreStatus();
}

}  // namespace ascpipe
