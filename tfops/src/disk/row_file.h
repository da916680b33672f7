// Unnamed file that contains rows of equal size. The kernel frees the file when its last descriptor is closed.
// docs/internals/row_files.md describes the row files.
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

// The class is thread-safe. Read, Write and Sync return 0 or an errno. Buffers are page-aligned.
class RowFile {
 public:
  // Creates an empty file. Uses O_DIRECT if `buffered` is false and the file system supports O_DIRECT.
  static CoreStatus Create(const std::string& directory, std::int64_t row_bytes, bool buffered,
                           std::unique_ptr<RowFile>* file);
  // Opens the file of another process by duplicating `fd`. The process that created the file must have exited.
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
  // Returns the number of blocks that may be read and written.
  std::int64_t blocks() const { return blocks_.load(std::memory_order_acquire); }
  std::int64_t slots() const { return blocks() * format_.slots_per_block(); }

  // Grows the file to at least `blocks` blocks. The file size is rounded up to a multiple of `step` bytes. If the disk
  // is full, Grow returns RESOURCE_EXHAUSTED with the needed and the free space, and leaves the file unchanged.
  CoreStatus Grow(std::int64_t blocks, std::int64_t step = kGrowthBytes);

  int Read(std::int64_t block, std::int64_t count, std::uint8_t* buffer) const;
  // Executes one write. Returns EIO for a short write.
  int Write(std::int64_t block, std::int64_t count, const std::uint8_t* buffer);
  // Flushes all completed writes to the disk. Does nothing with O_DIRECT. The kernel reports a lost write only once,
  // and then marks the lost pages as clean. Therefore Sync and Write always fail after the first failed sync.
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
  std::int64_t synced_ = 0;               // number of these writes that were synced
  std::atomic<int> sync_error_{0};
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_ROW_FILE_H_
