// A file of rows of one size, without a name: it ends with the last descriptor of it.  docs/internals/row_files.md
#ifndef ASCPIPE_DISK_ROW_FILE_H_
#define ASCPIPE_DISK_ROW_FILE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/core_status.h"
#include "disk/file_system.h"
#include "disk/row_format.h"

namespace ascpipe {

constexpr std::int64_t kGrowthBytes = std::int64_t{64} << 20;

// Threads may share it.  Read, Write and Sync return 0 or an errno; buffers begin on a page.
class RowFile {
 public:
  // Makes an empty file.  O_DIRECT unless `buffered`, or the file system has none.
  static CoreStatus Create(const std::string& directory, std::int64_t row_bytes, bool buffered,
                           std::unique_ptr<RowFile>* file);
  // Takes the file of another process over, by a duplicate of its descriptor.  That process must be dead.
  static CoreStatus Adopt(int fd, const std::string& directory, std::int64_t row_bytes, std::unique_ptr<RowFile>* file);
  ~RowFile();
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  const RowFormat& format() const { return format_; }
  const std::string& directory() const { return directory_; }
  int fd() const { return fd_; }
  dev_t device() const { return device_; }
  const FileSystem& file_system() const { return file_system_; }
  bool is_direct() const { return is_direct_; }
  // Blocks that may be read and written.
  std::int64_t blocks() const { return blocks_.load(std::memory_order_acquire); }
  std::int64_t slots() const { return blocks() * format_.slots_per_block(); }

  // Takes room for `blocks` at least, a multiple of `step` bytes.  Without room RESOURCE_EXHAUSTED, with need and room
  // in the text; the file is then as it was.
  CoreStatus Grow(std::int64_t blocks, std::int64_t step = kGrowthBytes);

  int Read(std::int64_t block, std::int64_t count, std::uint8_t* buffer) const;
  // One write.  A short one is EIO.
  int Write(std::int64_t block, std::int64_t count, const std::uint8_t* buffer);
  // What was written before the call is on the disk when it returns 0; nothing to do for O_DIRECT.  After the first
  // failure Sync and Write fail for ever: the kernel tells a lost write once, then calls lost pages clean.
  int Sync();

 private:
  RowFile(int fd, std::string directory, std::int64_t row_bytes)
      : format_(row_bytes), directory_(std::move(directory)), fd_(fd) {}
  CoreStatus Look();

  const RowFormat format_;
  const std::string directory_;
  const int fd_;
  dev_t device_ = 0;
  FileSystem file_system_ = {FileSystemKind::kUnknown, "unknown"};
  bool is_direct_ = false;
  std::atomic<std::int64_t> blocks_{0};
  std::mutex growing_;
  std::mutex syncing_;
  std::atomic<std::int64_t> written_{0};  // writes that have returned
  std::int64_t synced_ = 0;               // of these, the ones that are on the disk
  std::atomic<int> sync_error_{0};
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_ROW_FILE_H_
