// Detects the kind of a directory's file system. Some file systems accept O_DIRECT but do not store data on a disk.
#ifndef ASCPIPE_DISK_FILE_SYSTEM_H_
#define ASCPIPE_DISK_FILE_SYSTEM_H_

#include <cstdint>

namespace ascpipe {

enum class FileSystemKind : std::int32_t {
  kDisk = 0,     // ext, XFS, btrfs, F2FS, ZFS
  kMemory = 1,   // tmpfs, ramfs: rows "on disk" occupy memory
  kOverlay = 2,  // layers of a container image
  kNetwork = 3,
  kFuse = 4,
  kUnknown = 5,
};

struct FileSystem {
  FileSystemKind kind;
  const char* name;
};

// The argument `type` is the field f_type of statfs(2).
FileSystem FileSystemOfType(std::int64_t type);
FileSystem FileSystemOf(int fd);

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_FILE_SYSTEM_H_
