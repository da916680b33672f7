#include "input/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

constexpr std::int64_t kNsPerSecond = 1000000000;
constexpr std::size_t kMostBytesPerCall = std::size_t{1} << 30;  // Linux reads at most 2 GiB per call

CoreStatus Unreadable(const std::string& path, int error) {
  return Error(kE332, path, " cannot be read: ", std::strerror(error),
               ". Nothing was changed. Check the path, its permissions and the disk");
}

FileStamp StampOf(const struct stat& status) {
  return {status.st_size, status.st_mtim.tv_sec * kNsPerSecond + status.st_mtim.tv_nsec};
}

}  // namespace

constexpr std::size_t DataFile::kUncheckedBytes;

CoreStatus DataFile::Open(const std::string& path, std::unique_ptr<DataFile>* file) {
  // Without O_NONBLOCK, open would wait for the writer of a FIFO.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return Unreadable(path, errno);
  struct stat status;
  if (fstat(fd, &status) != 0) {
    const int error = errno;
    close(fd);
    return Unreadable(path, error);
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd);
    return Error(kE332, path, " is not a regular file. Nothing was read. Pass the path of a file");
  }
  file->reset(new DataFile(fd, path, StampOf(status)));
  return CoreStatus();
}

DataFile::~DataFile() { close(fd_); }

CoreStatus DataFile::Read(std::int64_t offset, std::size_t count, char* buffer, std::size_t* got) const {
  *got = 0;
  const std::int64_t left = std::max<std::int64_t>(stamp_.bytes - offset, 0);
  count = static_cast<std::size_t>(std::min<std::uint64_t>(count, static_cast<std::uint64_t>(left)));
  while (*got < count) {
    const std::size_t wanted = std::min(count - *got, kMostBytesPerCall);
    const ssize_t now = pread(fd_, buffer + *got, wanted, offset + static_cast<std::int64_t>(*got));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return Unreadable(path_, errno);
    if (now == 0) break;  // the file has become shorter
    *got += static_cast<std::size_t>(now);
  }
  if (*got == count && count < kUncheckedBytes) return CoreStatus();
  const CoreStatus status = CheckUnchanged();
  if (!status.ok() || *got == count) return status;
  return Error(kE331, path_, " has changed while it was read: expected ", stamp_.bytes, " bytes, but it ends at byte ",
               offset + static_cast<std::int64_t>(*got), ". Read it again when no other process writes it");
}

CoreStatus DataFile::CheckUnchanged() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) return Unreadable(path_, errno);
  const FileStamp now = StampOf(status);
  if (now.bytes == stamp_.bytes && now.modified_ns == stamp_.modified_ns) return CoreStatus();
  return Error(kE331, path_, " has changed while it was read: expected ", stamp_.bytes, " bytes, modified at ",
               stamp_.modified_ns, " ns since 1970; found ", now.bytes, " bytes, modified at ", now.modified_ns,
               " ns. Read it again when no other process writes it");
}

}  // namespace ascpipe
