// Index of the records of a plain TFRecord or text file, in a file.
//
// An index file has a header of 64 bytes and blocks of 272 bytes, each for 64 records: 4.25 bytes per record. All
// numbers are little-endian. A block has the offset of its first record and the lengths of all its records, so that a
// record is found by one read of a block and at most 63 additions. Header and blocks have checksums.
//
// An index of a TFRecord file has version 1, and zeros as format. An index of a text file has version 2: it is valid
// for one format only, because the delimiter, quotes and header determine the records.
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
  FileStamp stamp;  // of the data file
  std::int64_t records;
  std::uint8_t kind, delimiter, use_quotes, has_header;  // of RecordFormat
  std::uint32_t content_low;                             // lower half of the bytes of the content, if compressed
  std::int64_t begin;                                    // offset of the first record: bytes of the header of a text
  std::uint32_t content_high;                            // upper half
  std::uint32_t checksum;                                // CRC-32C of the bytes before
};
static_assert(sizeof(IndexHeader) == 64, "the header of an index file has 64 bytes");

struct IndexBlock {
  static constexpr std::int64_t kRecords = 64;

  std::int64_t offset;              // of the first record in the data file
  std::uint32_t records;            // kRecords, or fewer in the last block
  std::uint32_t checksum;           // CRC-32C of all other bytes of the block
  std::uint32_t lengths[kRecords];  // of each record in bytes, without FrameBytes; 0 after the last record
};
static_assert(sizeof(IndexBlock) == 272, "a block of an index file has 272 bytes");

// Closes a descriptor when it is destroyed.
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

// Builds an index in steps, so that the caller can show progress and can be interrupted. The index file appears when it
// is complete: it is written under a temporary name, synchronized to the disk, and renamed.
class RecordIndexWriter {
 public:
  // Opens the data file and creates the temporary file. A compressed file is decompressed to find its records.
  static CoreStatus Begin(const std::string& data_path, const RecordFormat& format, const std::string& index_path,
                          std::unique_ptr<RecordIndexWriter>* writer);
  ~RecordIndexWriter();  // removes the temporary file

  // Scans about `bytes` bytes of the data file. Only the lengths of TFRecords and their checksums are read if the
  // records are large. After the last record, writes the index file and sets `is_done`.
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
  std::vector<IndexBlock> blocks_;  // that are not written yet
  IndexBlock block_;
  std::int64_t records_ = 0;
  std::int64_t written_ = 0;  // number of blocks
};

// An open index. Methods may be called by several threads.
class RecordIndex {
 public:
  // Opens the index of a data file, and checks the whole index. Fails with kE333 if the index is damaged, or if it was
  // built from a file with another size or modification time, or with another format.
  static CoreStatus Open(const std::string& path, const FileStamp& data, const RecordFormat& format,
                         std::unique_ptr<RecordIndex>* index);

  std::int64_t records() const { return records_; }

  // Finds `count` records beginning with record `first`.
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
