#include "input/record_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/crc32c.h"
#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

constexpr char kMagic[8] = {'A', 'S', 'C', 'I', 'N', 'D', 'E', 'X'};
// Index versions for TFRecord files, for text files, and for compressed files of any format.
constexpr std::uint32_t kVersion = 1, kTextVersion = 2, kCompressedVersion = 3;
constexpr std::int64_t kIndexHeaderBytes = sizeof(IndexHeader);
constexpr std::int64_t kBlockBytes = sizeof(IndexBlock);
constexpr std::size_t kBlocksPerWrite = 4096;  // 1.1 MB
constexpr std::int64_t kMostKeptBlocks =
    (std::int64_t{64} << 20) / kBlockBytes;  // larger indexes are not kept in memory

std::uint32_t ChecksumOf(const IndexBlock& block) {
  const std::uint32_t before = Crc32c(&block, offsetof(IndexBlock, checksum));
  return Crc32c(block.lengths, sizeof(block.lengths), before);
}

std::uint32_t ChecksumOf(const IndexHeader& header) { return Crc32c(&header, offsetof(IndexHeader, checksum)); }

std::uint32_t VersionOf(const RecordFormat& format) { return IsText(format) ? kTextVersion : kVersion; }

RecordFormat FormatOf(const IndexHeader& header) {
  return {header.kind, header.delimiter, header.use_quotes, header.has_header};
}

bool AreSame(const RecordFormat& a, const RecordFormat& b) {
  return a.kind == b.kind && a.delimiter == b.delimiter && a.use_quotes == b.use_quotes && a.has_header == b.has_header;
}

// Returns the size of the content that contains the records, in bytes.
std::int64_t ContentOf(const IndexHeader& header) {
  if (header.version != kCompressedVersion) return header.stamp.bytes;
  return static_cast<std::int64_t>(std::uint64_t{header.content_high} << 32 | header.content_low);
}

std::int64_t BlocksFor(std::int64_t records) {
  return records / IndexBlock::kRecords + (records % IndexBlock::kRecords != 0 ? 1 : 0);
}

std::string DirectoryOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Reads exactly `count` bytes. Returns 0, an errno, or -1 at the end of the file.
int ReadExactly(int fd, void* bytes, std::size_t count, std::int64_t offset) {
  char* at = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = pread(fd, at, count, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : -1;
    at += got;
    offset += got;
    count -= static_cast<std::size_t>(got);
  }
  return 0;
}

}  // namespace

constexpr std::int64_t IndexBlock::kRecords;

Descriptor::~Descriptor() { Reset(-1); }

void Descriptor::Reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

CoreStatus RecordIndexWriter::Begin(const std::string& data_path, const RecordFormat& format,
                                    const std::string& index_path, std::unique_ptr<RecordIndexWriter>* writer) {
  std::unique_ptr<RecordReader> data;
  CoreStatus status = RecordReader::Open(data_path, format, Compression::kDetect, &data);
  if (!status.ok()) return status;
  std::unique_ptr<RecordIndexWriter> made(new RecordIndexWriter(std::move(data), index_path));
  const std::string text = index_path + ".XXXXXX";
  std::vector<char> temporary(text.c_str(), text.c_str() + text.size() + 1);
  made->file_.Reset(mkostemp(temporary.data(), O_CLOEXEC));
  if (made->file_.get() < 0) return made->Unwritable(errno);
  made->temporary_path_ = temporary.data();
  *writer = std::move(made);
  return CoreStatus();
}

RecordIndexWriter::~RecordIndexWriter() {
  if (!temporary_path_.empty()) unlink(temporary_path_.c_str());
}

CoreStatus RecordIndexWriter::Step(std::int64_t bytes, bool* is_done) {
  *is_done = false;
  const std::int64_t frame_bytes = FrameBytes(data_->format());
  const std::int64_t until = data_->position() + bytes;
  while (data_->position() < until) {
    RecordPlace place;
    bool is_end;
    CoreStatus status = data_->Skip(&place, &is_end);
    if (!status.ok()) return status;
    if (is_end) {
      *is_done = true;
      return Finish();
    }
    if (block_.records == 0) block_.offset = place.offset;
    block_.lengths[block_.records++] = static_cast<std::uint32_t>(place.bytes - frame_bytes);
    ++records_;
    if (block_.records == IndexBlock::kRecords) {
      status = EndBlock();
      if (!status.ok()) return status;
    }
  }
  return CoreStatus();
}

// Appends the block to the unwritten blocks, and writes all unwritten blocks if there are many.
CoreStatus RecordIndexWriter::EndBlock() {
  block_.checksum = ChecksumOf(block_);
  blocks_.push_back(block_);
  block_ = IndexBlock();
  return blocks_.size() < kBlocksPerWrite ? CoreStatus() : WriteBlocks();
}

CoreStatus RecordIndexWriter::WriteBlocks() {
  const std::int64_t offset = kIndexHeaderBytes + written_ * kBlockBytes;
  const CoreStatus status = Write(blocks_.data(), blocks_.size() * sizeof(IndexBlock), offset);
  written_ += static_cast<std::int64_t>(blocks_.size());
  blocks_.clear();
  return status;
}

CoreStatus RecordIndexWriter::Finish() {
  CoreStatus status = block_.records > 0 ? EndBlock() : CoreStatus();
  if (status.ok()) status = WriteBlocks();
  if (!status.ok()) return status;
  IndexHeader header = IndexHeader();
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  const RecordFormat& format = data_->format();
  header.version = VersionOf(format);
  header.records_per_block = IndexBlock::kRecords;
  header.stamp = data_->file().stamp();
  header.records = records_;
  header.kind = static_cast<std::uint8_t>(format.kind);
  header.delimiter = static_cast<std::uint8_t>(format.delimiter);
  header.use_quotes = static_cast<std::uint8_t>(format.use_quotes);
  header.has_header = static_cast<std::uint8_t>(format.has_header);
  header.begin = begin_;
  if (data_->compression() != Compression::kNone) {
    const auto content = static_cast<std::uint64_t>(data_->position());
    header.version = kCompressedVersion;
    header.content_low = static_cast<std::uint32_t>(content);
    header.content_high = static_cast<std::uint32_t>(content >> 32);
  }
  header.checksum = ChecksumOf(header);
  status = Write(&header, sizeof(header), 0);
  if (!status.ok()) return status;
  // All users that can read the data may read the index. mkostemp creates files that only this user can read.
  struct stat data;
  const bool has_mode = stat(data_->file().path().c_str(), &data) == 0;
  if (has_mode && fchmod(file_.get(), (data.st_mode & 0444) | S_IRUSR | S_IWUSR) != 0) return Unwritable(errno);
  if (fsync(file_.get()) != 0) return Unwritable(errno);
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) return Unwritable(errno);
  temporary_path_.clear();
  const Descriptor directory(open(DirectoryOf(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) fsync(directory.get());  // may fail: a lost index is built again
  return CoreStatus();
}

CoreStatus RecordIndexWriter::Write(const void* bytes, std::size_t count, std::int64_t offset) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t put = pwrite(file_.get(), at, count, offset);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return Unwritable(put < 0 ? errno : EIO);
    at += put;
    offset += put;
    count -= static_cast<std::size_t>(put);
  }
  return CoreStatus();
}

CoreStatus RecordIndexWriter::Unwritable(int error) const {
  return Error(kE335, "the index ", path_, " cannot be written: ", std::strerror(error),
               ". The data was not changed. Free some space (an index needs 4.25 bytes per record), or make the "
               "directory writable");
}

template <typename... Parts>
CoreStatus RecordIndex::Unusable(const Parts&... parts) const {
  return Error(kE333, "the index ", path_, " cannot be used: ", parts..., ". Build it again: ascpipe data index FILE");
}

CoreStatus RecordIndex::Open(const std::string& path, const FileStamp& data, const RecordFormat& format,
                             std::unique_ptr<RecordIndex>* index) {
  std::unique_ptr<RecordIndex> opened(new RecordIndex(path, format));
  opened->file_.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (opened->file_.get() < 0) return opened->Unusable(std::strerror(errno));
  const CoreStatus status = opened->ReadAll(data);
  if (status.ok()) *index = std::move(opened);
  return status;
}

// Reads the header. Checks all numbers except the numbers that depend on the size of the index file.
CoreStatus RecordIndex::ReadHeader(const FileStamp& data, IndexHeader* header) {
  if (ReadExactly(file_.get(), header, sizeof(*header), 0) != 0) {
    return Unusable("it has no header of ", sizeof(*header), " bytes");
  }
  if (std::memcmp(header->magic, kMagic, sizeof(kMagic)) != 0) return Unusable("it is not an index file");
  const std::uint32_t checksum = ChecksumOf(*header);
  if (header->checksum != checksum) {
    return Unusable("the checksum of its header is wrong: expected ", checksum, ", found ", header->checksum);
  }
  if (header->version < kVersion || header->version > kCompressedVersion ||
      header->records_per_block != IndexBlock::kRecords) {
    return Unusable("its version is ", header->version, ", and this ascpipe reads the versions ", kVersion, " to ",
                    kCompressedVersion);
  }
  if (header->stamp.bytes != data.bytes || header->stamp.modified_ns != data.modified_ns) {
    return Unusable("it was built from a file of ", header->stamp.bytes, " bytes, modified at ",
                    header->stamp.modified_ns, " ns since 1970, but the file now has ", data.bytes,
                    " bytes, modified at ", data.modified_ns, " ns");
  }
  const bool is_version = header->version == VersionOf(format_) || header->version == kCompressedVersion;
  if (!AreSame(FormatOf(*header), format_) || !is_version || ContentOf(*header) < 0) {
    return Unusable("it was built for the format ", Described(FormatOf(*header)), ", and the file is read as ",
                    Described(format_));
  }
  return CoreStatus();
}

CoreStatus RecordIndex::ReadAll(const FileStamp& data) {
  struct stat file;
  if (fstat(file_.get(), &file) != 0) return Unusable(std::strerror(errno));
  if (!S_ISREG(file.st_mode)) return Unusable("it has no header of ", sizeof(IndexHeader), " bytes");
  IndexHeader header;
  const CoreStatus readable = ReadHeader(data, &header);
  if (!readable.ok()) return readable;
  // A TFRecord has at least the bytes of its frame, and a text record at least one byte, so no number below overflows.
  const std::int64_t content = ContentOf(header);
  const bool is_possible = header.records >= 0 && header.records <= content / std::max<std::int64_t>(frame_bytes_, 1) &&
                           header.begin >= 0 && header.begin <= content;
  const std::int64_t blocks = is_possible ? BlocksFor(header.records) : 0;
  const std::int64_t expected = kIndexHeaderBytes + blocks * kBlockBytes;
  if (!is_possible || file.st_size != expected) {
    return Unusable("for ", header.records, " records it needs ", expected, " bytes, and has ", file.st_size);
  }
  records_ = header.records;
  const bool keeps = blocks <= kMostKeptBlocks;
  std::vector<IndexBlock> read;
  std::int64_t offset = header.begin, records = 0;
  for (std::int64_t first = 0; first < blocks; first += static_cast<std::int64_t>(read.size())) {
    read.resize(static_cast<std::size_t>(std::min<std::int64_t>(blocks - first, kBlocksPerWrite)));
    const CoreStatus status = ReadBlocks(first, static_cast<std::int64_t>(read.size()), read.data());
    if (!status.ok()) return status;
    for (const IndexBlock& block : read) {
      if (block.offset != offset) {
        return Unusable("record ", records, " is at byte ", offset, ", not at byte ", block.offset);
      }
      records += block.records;
      for (std::uint32_t i = 0; i < block.records; ++i) offset += block.lengths[i] + frame_bytes_;
    }
    if (keeps) kept_.insert(kept_.end(), read.begin(), read.end());
  }
  if (records == records_ && offset == content) return CoreStatus();
  return Unusable("it has ", records, " records of ", offset, " bytes in total: expected ", records_, " records of ",
                  content, " bytes");
}

CoreStatus RecordIndex::ReadBlocks(std::int64_t first, std::int64_t count, IndexBlock* blocks) const {
  const std::int64_t offset = kIndexHeaderBytes + first * kBlockBytes;
  const int error = ReadExactly(file_.get(), blocks, static_cast<std::size_t>(count) * sizeof(IndexBlock), offset);
  if (error != 0) return Unusable(error > 0 ? std::strerror(error) : "it has become shorter");
  const std::int64_t last = BlocksFor(records_) - 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t expected = ChecksumOf(blocks[i]);
    if (blocks[i].checksum != expected) {
      return Unusable("the checksum of block ", first + i, " is wrong: expected ", expected, ", found ",
                      blocks[i].checksum);
    }
    const std::int64_t records =
        first + i == last ? records_ - last * IndexBlock::kRecords : std::int64_t{IndexBlock::kRecords};
    if (blocks[i].records != records) {
      return Unusable("block ", first + i, " has ", blocks[i].records, " records: expected ", records);
    }
  }
  return CoreStatus();
}

CoreStatus RecordIndex::Find(std::int64_t first, std::int64_t count, RecordPlace* places) const {
  if (first < 0 || count < 0 || first > records_ || count > records_ - first) {
    return Error(kE333, "the index ", path_, " has ", records_, " records, and not the ", count,
                 " records that begin with record ", first);
  }
  IndexBlock read;
  for (std::int64_t number = first; number < first + count;) {
    const std::int64_t block_number = number / IndexBlock::kRecords;
    if (kept_.empty()) {
      const CoreStatus status = ReadBlocks(block_number, 1, &read);
      if (!status.ok()) return status;
    }
    const IndexBlock& block = kept_.empty() ? read : kept_[static_cast<std::size_t>(block_number)];
    std::int64_t i = number % IndexBlock::kRecords;
    std::int64_t offset = block.offset + i * frame_bytes_;
    for (std::int64_t before = 0; before < i; ++before) offset += block.lengths[before];
    for (; i < block.records && number < first + count; ++i, ++number) {
      *places++ = {number, offset, block.lengths[i] + frame_bytes_};
      offset += block.lengths[i] + frame_bytes_;
    }
  }
  return CoreStatus();
}

}  // namespace ascpipe
