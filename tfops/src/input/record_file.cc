#include "input/record_file.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/crc32c.h"
#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kPageBytes = 4096;
constexpr std::int64_t kFarBytes = 1 << 14;  // a longer gap between two reads is not read

// TFRecord files have masked checksums, because the CRC of bytes that contain their own CRC is a constant.
std::uint32_t Masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

// The machine is little-endian, like the format.
template <typename Number>
Number NumberAt(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof(number));
  return number;
}

bool HasLengthChecksum(const char* header) {
  return Masked(Crc32c(header, sizeof(std::uint64_t))) == NumberAt<std::uint32_t>(header + sizeof(std::uint64_t));
}

// A plain file may begin with the bytes of a compressed file, but then its first length does not have its checksum.
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
  std::unique_ptr<RecordFile> opened(new RecordFile(std::move(data), compression));
  if (opened->is_plain()) {
    opened->source_.reset(new PlainSource(opened->file_.get()));
  } else {
    status = OpenInflated(opened->file_.get(), compression, &opened->source_);
    if (!status.ok()) return status;
  }
  opened->read_ahead_ = kBufferBytes;
  *file = std::move(opened);
  return CoreStatus();
}

template <typename... Parts>
CoreStatus RecordFile::Damaged(const Parts&... parts) const {
  return Error(kE330, file_->path(), ": record ", number_, " at byte ", position_,
               is_plain() ? "" : " of the decompressed content", " is damaged: ", parts...,
               ". Write or copy the file again; `ascpipe data check` lists its damaged records");
}

CoreStatus RecordFile::Next(RecordPlace* place, ByteRange* data, bool* is_end) {
  std::int64_t length;
  CoreStatus status = ReadHeader(&length, is_end);
  if (!status.ok() || *is_end) return status;
  status = ReadData(length, data);
  if (!status.ok()) return status;
  *place = {number_, position_, length + kRecordFrameBytes};
  Advance(place->bytes);
  return CoreStatus();
}

CoreStatus RecordFile::Skip(RecordPlace* place, bool* is_end) {
  std::int64_t length;
  CoreStatus status = ReadHeader(&length, is_end);
  if (!status.ok() || *is_end) return status;
  *place = {number_, position_, length + kRecordFrameBytes};
  if (is_plain()) {
    Jump(number_ + 1, position_ + place->bytes);
    return CoreStatus();
  }
  status = Fill(static_cast<std::size_t>(place->bytes));
  if (!status.ok()) return status;
  if (available() < static_cast<std::size_t>(place->bytes)) {
    return Damaged("expected ", length, " bytes of data and a checksum, found only ", available(), " bytes of both");
  }
  Advance(place->bytes);
  return CoreStatus();
}

CoreStatus RecordFile::ReadAt(const RecordPlace& place, ByteRange* data) {
  if (!is_plain()) {
    return Error(
        kE333, file_->path(),
        " has no index, because the records of a compressed file can only be read in order. Decompress the file");
  }
  const std::int64_t bytes = file_->stamp().bytes;
  if (place.number < 0 || place.offset < 0 || place.bytes < kRecordFrameBytes || place.offset > bytes ||
      place.bytes > bytes - place.offset || place.bytes > kMostRecordBytes + kRecordFrameBytes) {
    return Error(kE333, file_->path(), ": there is no record ", place.number, " of ", place.bytes, " bytes at byte ",
                 place.offset, ", because the file has ", bytes, " bytes. Build the index again");
  }
  Jump(place.number, place.offset);
  CoreStatus status = Fill(static_cast<std::size_t>(place.bytes));
  if (!status.ok()) return status;
  std::int64_t length;
  bool is_end;
  status = ReadHeader(&length, &is_end);
  if (!status.ok()) return status;
  if (length + kRecordFrameBytes != place.bytes) {
    return Error(kE333, file_->path(), ": record ", place.number, " at byte ", place.offset, " has ",
                 length + kRecordFrameBytes, " bytes, but the index has ", place.bytes, ". Build the index again");
  }
  status = ReadData(length, data);
  if (status.ok()) Advance(place.bytes);
  return status;
}

CoreStatus RecordFile::ReadHeader(std::int64_t* length, bool* is_end) {
  CoreStatus status = Fill(static_cast<std::size_t>(kRecordHeaderBytes));
  if (!status.ok()) return status;
  *is_end = available() == 0;
  if (*is_end) return file_->CheckUnchanged();
  if (available() < static_cast<std::size_t>(kRecordHeaderBytes)) {
    return Damaged("expected a header of ", kRecordHeaderBytes, " bytes, found only ", available(),
                   " bytes before the end");
  }
  const std::uint64_t found = NumberAt<std::uint64_t>(at());
  if (!HasLengthChecksum(at())) {
    return Damaged("the checksum of its length (", found, ") is wrong: expected ", Masked(Crc32c(at(), sizeof(found))),
                   ", found ", NumberAt<std::uint32_t>(at() + sizeof(found)),
                   number_ == 0 ? ". Perhaps the file is not a TFRecord file, or has another compression" : "");
  }
  if (found > static_cast<std::uint64_t>(kMostRecordBytes)) {
    return Damaged("its length is ", found, " bytes, and the limit is ", kMostRecordBytes);
  }
  *length = static_cast<std::int64_t>(found);
  const std::int64_t left = file_->stamp().bytes - position_ - kRecordFrameBytes;
  if (is_plain() && *length > left) {
    return Damaged("expected ", *length, " bytes of data and a checksum, but the file of ", file_->stamp().bytes,
                   " bytes ends ", *length - left, " bytes too early");
  }
  return CoreStatus();
}

CoreStatus RecordFile::ReadData(std::int64_t length, ByteRange* data) {
  const std::size_t needed = static_cast<std::size_t>(length + kRecordFrameBytes);
  CoreStatus status = Fill(needed);
  if (!status.ok()) return status;
  if (available() < needed) {
    return Damaged("expected ", length, " bytes of data and a checksum, found only ",
                   available() - static_cast<std::size_t>(kRecordHeaderBytes), " bytes of both");
  }
  const char* const begin = at() + kRecordHeaderBytes;
  const std::uint32_t expected = Masked(Crc32c(begin, static_cast<std::size_t>(length)));
  const std::uint32_t found = NumberAt<std::uint32_t>(begin + length);
  if (expected != found) {
    return Damaged("the checksum of its ", length, " bytes of data is wrong: expected ", expected, ", found ", found);
  }
  *data = {begin, static_cast<std::size_t>(length)};
  return CoreStatus();
}

void RecordFile::Advance(std::int64_t bytes) {
  begin_ += static_cast<std::size_t>(bytes);
  position_ += bytes;
  ++number_;
}

// Moves to a record of a plain file.
void RecordFile::Jump(std::int64_t number, std::int64_t offset) {
  const std::int64_t distance = offset - position_;
  if (distance >= -static_cast<std::int64_t>(begin_) && distance <= static_cast<std::int64_t>(available())) {
    begin_ = static_cast<std::size_t>(static_cast<std::int64_t>(begin_) + distance);
  } else {
    const std::int64_t gap = distance - static_cast<std::int64_t>(available());
    if (gap < 0 || gap > kFarBytes) read_ahead_ = 0;
    begin_ = filled_ = 0;
    source_->Seek(offset);
  }
  number_ = number;
  position_ = offset;
}

// Reads until the buffer has `count` bytes at position_, or all bytes up to the end.
CoreStatus RecordFile::Fill(std::size_t count) {
  if (available() >= count) return CoreStatus();
  const CoreStatus status = Reserve(count);
  if (!status.ok()) return status;
  while (available() < count) {
    const std::size_t wanted = std::min(std::max(count - available(), read_ahead_), capacity_ - filled_);
    std::size_t got;
    const CoreStatus read = source_->Read(wanted, buffer_.get() + filled_, &got);
    if (!read.ok()) return read;
    if (got == 0) break;
    filled_ += got;
  }
  read_ahead_ = std::min(std::max(2 * read_ahead_, kPageBytes), kBufferBytes);
  return CoreStatus();
}

// Makes room for `count` bytes at position_. A larger buffer occupies only as much memory as it gets bytes.
CoreStatus RecordFile::Reserve(std::size_t count) {
  if (count <= capacity_) {
    if (begin_ > 0) std::memmove(buffer_.get(), buffer_.get() + begin_, available());
  } else {
    const std::size_t larger = std::max({count + kPageBytes, kBufferBytes, 2 * capacity_});
    PrivateArray<char> buffer(static_cast<std::int64_t>(larger));
    if (buffer.get() == nullptr) {
      return Error(kE332, file_->path(), " cannot be read: there is no memory for record ", number_, " of ", count,
                   " bytes. Free some memory, or write smaller records");
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
