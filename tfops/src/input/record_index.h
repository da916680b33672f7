// Index file with the positions of the records of a TFRecord or text file.
//
// An index file has a header of 64 bytes and blocks of 272 bytes. Each block describes 64 records, so an index needs
// 4.25 bytes per record. All numbers are little-endian. A block contains the offset of its first record and the lengths
// of all its records. Therefore a record is found by reading one block and adding at most 63 lengths. The header and
// the blocks have checksums.
//
// An index of a TFRecord file has version 1 and contains zeros in place of a format. An index of a text file has
// version 2. An index of a text file is valid only for one format, because the delimiter, the quotes and the header
// determine the records.
#ifndef ASCPIPE_INPUT_RECORD_INDEX_H_
#define ASCPIPE_INPUT_RECORD_INDEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "input/data_file.h"
#include "input/record_reader.h"

namespace ascpipe {

struct IndexHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t records_per_block;
  FileStamp stamp;  // stamp of the data file
  std::int64_t records;
  std::uint8_t kind, delimiter, use_quotes, has_header;  // members of RecordFormat
  std::uint32_t content_low;                             // lower half of the content's size, if compressed
  std::int64_t begin;                                    // offset of the first record, after a text file's header
  std::uint32_t content_high;                            // upper half of the content's size
  std::uint32_t checksum;                                // CRC-32C of the preceding bytes
};
static_assert(sizeof(IndexHeader) == 64, "the header of an index file has 64 bytes");

struct IndexBlock {
  static constexpr std::int64_t kRecords = 64;

  std::int64_t offset;              // offset of the block's first record in the data file
  std::uint32_t records;            // number of records: kRecords, or fewer in the last block
  std::uint32_t checksum;           // CRC-32C of all other bytes of the block
  std::uint32_t lengths[kRecords];  // bytes of each record without FrameBytes; 0 after the last record
};
static_assert(sizeof(IndexBlock) == 272, "a block of an index file has 272 bytes");

// Owns a file descriptor, and closes it on destruction.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return fd_; }
  void Reset(int fd);

 private:
  int fd_;
};

// Builds an index in steps, so that the caller can show progress and can be interrupted. The index file appears only
// when it is complete. The index file is written under a temporary name, synced to the disk, and then renamed.
class RecordIndexWriter {
 public:
  // Opens the data file and creates the temporary file. A compressed file is decompressed to find its records.
  static CoreStatus Begin(const std::string& data_path, const RecordFormat& format, const std::string& index_path,
                          std::unique_ptr<RecordIndexWriter>* writer);
  ~RecordIndexWriter();  // removes the temporary file

  // Scans about `bytes` bytes of the data file. If TFRecords are large, only their lengths and the checksums of the
  // lengths are read. After the last record, writes the index file and sets `is_done`.
  CoreStatus Step(std::int64_t bytes, bool* is_done);

  std::int64_t records() const { return records_; }
  const RecordReader& data() const { return *data_; }

 private:
  RecordIndexWriter(std::unique_ptr<RecordReader> data, const std::string& path)
      : data_(std::move(data)), begin_(data_->position()), path_(path), block_() {}

  CoreStatus EndBlock();
  CoreStatus WriteBlocks();
  CoreStatus Finish();
  CoreStatus Write(const void* bytes, std::size_t count, std::int64_t offset);
  CoreStatus Unwritable(int error) const;

  const std::unique_ptr<RecordReader> data_;
  const std::int64_t begin_;  // offset of the first record
  const std::string path_;
  std::string temporary_path_;  // empty if there is no temporary file
  Descriptor file_;
  std::vector<IndexBlock> blocks_;  // blocks that are not written yet
  IndexBlock block_;
  std::int64_t records_ = 0;
  std::int64_t written_ = 0;  // number of written blocks
};

// An open index. The class is thread-safe.
class RecordIndex {
 public:
  // Opens the index of a data file, and checks the whole index. Returns kE333 if the index is damaged. Also returns
  // kE333 if the index was built from a file with another size, modification time or format.
  static CoreStatus Open(const std::string& path, const FileStamp& data, const RecordFormat& format,
                         std::unique_ptr<RecordIndex>* index);

  std::int64_t records() const { return records_; }

  // Finds the positions of `count` records, beginning with record `first`.
  CoreStatus Find(std::int64_t first, std::int64_t count, RecordPlace* places) const;

 private:
  RecordIndex(const std::string& path, const RecordFormat& format)
      : path_(path), format_(format), frame_bytes_(FrameBytes(format)) {}

  CoreStatus ReadHeader(const FileStamp& data, IndexHeader* header);
  CoreStatus ReadAll(const FileStamp& data);
  CoreStatus ReadBlocks(std::int64_t first, std::int64_t count, IndexBlock* blocks) const;
  template <typename... Parts>
  CoreStatus Unusable(const Parts&... parts) const;

  const std::string path_;
  const RecordFormat format_;
  const std::int64_t frame_bytes_;
  Descriptor file_;
  std::int64_t records_ = 0;
  std::vector<IndexBlock> kept_;  // all blocks, or none if the index is large
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_INDEX_H_
