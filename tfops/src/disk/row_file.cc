#include "disk/row_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace ascpipe {

namespace {

constexpr int kOwnerOnly = S_IRUSR | S_IWUSR;
constexpr std::int64_t kMostFileBytes = std::int64_t{1} << 60;

// Returns the descriptor of an unnamed file. On failure, returns -1 and sets errno.
int OpenNameless(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly);
  // EOPNOTSUPP, EISDIR and EINVAL mean that O_TMPFILE is not supported.
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  const std::string text = directory + "/.ascpipe-rows-XXXXXX";
  std::vector<char> path(text.c_str(), text.c_str() + text.size() + 1);
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0 && unlink(path.data()) != 0) {
    const int error = errno;
    close(named);
    errno = error;
    return -1;
  }
  return named;
}

CoreStatus RowTooLong(std::int64_t row_bytes) {
  return Error(Code::kInvalidArgument, "a row of ", row_bytes, " bytes does not fit a row file: 1 to ", kMostRowBytes);
}

}  // namespace

CoreStatus RowFile::Create(const std::string& directory, std::int64_t row_bytes, bool buffered,
                           std::unique_ptr<RowFile>* file) {
  if (!RowFormat::Fits(row_bytes)) return RowTooLong(row_bytes);
  const int fd = OpenNameless(directory);
  if (fd < 0) {
    return Error(Code::kFailedPrecondition, "no row file can be made in ", directory, ": ", std::strerror(errno));
  }
  // O_DIRECT is set after the file is created. If the file system does not support O_DIRECT, fcntl fails and the file
  // stays buffered.
  if (!buffered) (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
  std::unique_ptr<RowFile> made(new RowFile(fd, directory, row_bytes));
  const CoreStatus looked = made->Look();
  if (looked.ok()) *file = std::move(made);
  return looked;
}

CoreStatus RowFile::Adopt(int fd, const std::string& directory, std::int64_t row_bytes,
                          std::unique_ptr<RowFile>* file) {
  if (!RowFormat::Fits(row_bytes)) return RowTooLong(row_bytes);
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) {
    return Error(Code::kFailedPrecondition, "descriptor ", fd, " of a row file in ", directory, ": ",
                 std::strerror(errno));
  }
  std::unique_ptr<RowFile> adopted(new RowFile(own, directory, row_bytes));
  const CoreStatus looked = adopted->Look();
  if (looked.ok()) *file = std::move(adopted);
  return looked;
}

RowFile::~RowFile() { close(fd_); }

CoreStatus RowFile::Look() {
  struct stat status;
  const int flags = fcntl(fd_, F_GETFL);
  if (flags < 0 || fstat(fd_, &status) != 0) {
    return Error(Code::kFailedPrecondition, "a row file in ", directory_, ": ", std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return Error(Code::kInvalidArgument, "the descriptor of a row file in ", directory_, " is not one of a file");
  }
  device_ = status.st_dev;
  is_direct_ = (flags & O_DIRECT) != 0;
  file_system_ = FileSystemOf(fd_);
  blocks_.store(static_cast<std::int64_t>(status.st_size) / format_.block_bytes(), std::memory_order_release);
  return CoreStatus();
}

CoreStatus RowFile::Grow(std::int64_t blocks, std::int64_t step) {
  std::lock_guard<std::mutex> lock(growing_);
  if (blocks <= this->blocks()) return CoreStatus();
  if (blocks > kMostFileBytes / format_.block_bytes()) {
    return Error(Code::kInvalidArgument, "a row file has no ", blocks, " blocks of ", format_.block_bytes(), " bytes");
  }
  struct stat status;
  if (fstat(fd_, &status) != 0) {
    return Error(Code::kInternal, "a row file in ", directory_, ": ", std::strerror(errno));
  }
  const std::int64_t before = status.st_size;
  const std::int64_t after = (blocks * format_.block_bytes() + step - 1) / step * step;
  int error;
  do {
    error = fallocate(fd_, 0, before, after - before) == 0 ? 0 : errno;
  } while (error == EINTR);
  // If the file system cannot reserve space, ftruncate only increases the file size, and a later write may fail with
  // ENOSPC.
  if (error == EOPNOTSUPP) error = ftruncate(fd_, after) == 0 ? 0 : errno;
  if (error == 0) {
    blocks_.store(after / format_.block_bytes(), std::memory_order_release);
    return CoreStatus();
  }
  // If fallocate fails, ext4 keeps the blocks that fallocate has already allocated. ftruncate frees the allocated
  // blocks, which may fill the disk.
  const bool is_back = ftruncate(fd_, before) == 0;
  struct statvfs room;
  const bool is_known = fstatvfs(fd_, &room) == 0;
  const bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Error(is_full ? Code::kResourceExhausted : Code::kInternal, "a row file in ", directory_, " needs ",
               after - before, " bytes more, and ",
               is_known ? static_cast<std::int64_t>(room.f_bavail) * static_cast<std::int64_t>(room.f_frsize) : -1,
               " are free: ", std::strerror(error), is_back ? "" : ". What it got could not be given back");
}

int RowFile::Read(std::int64_t block, std::int64_t count, std::uint8_t* buffer) const {
  const std::int64_t bytes = count * format_.block_bytes();
  iovec part = {buffer, static_cast<std::size_t>(bytes)};
  ssize_t got;
  do {
    got = preadv(fd_, &part, 1, block * format_.block_bytes());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno;
  return got == bytes ? 0 : EIO;
}

int RowFile::Write(std::int64_t block, std::int64_t count, const std::uint8_t* buffer) {
  const int failed = sync_error_.load(std::memory_order_acquire);
  if (failed != 0) return failed;
  const std::int64_t bytes = count * format_.block_bytes();
  iovec part = {const_cast<std::uint8_t*>(buffer), static_cast<std::size_t>(bytes)};
  ssize_t put;
  do {
    put = pwritev(fd_, &part, 1, block * format_.block_bytes());
  } while (put < 0 && errno == EINTR);
  if (put < 0) return errno;
  written_.fetch_add(1);
  return put == bytes ? 0 : EIO;
}

int RowFile::Sync() {
  if (is_direct_) return 0;
  const std::int64_t wanted = written_.load();
  // Only one fsync runs at a time, because the kernel reports a lost write to only one of two concurrent calls.
  std::lock_guard<std::mutex> lock(syncing_);
  const int failed = sync_error_.load(std::memory_order_acquire);
  if (failed != 0 || synced_ >= wanted) return failed;
  const std::int64_t until = written_.load();
  if (fdatasync(fd_) != 0) {
    sync_error_.store(errno, std::memory_order_release);
    return errno;
  }
  synced_ = until;
  return 0;
}

}  // namespace ascpipe
