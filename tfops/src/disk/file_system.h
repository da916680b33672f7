// What kind of file system a directory is on: some that accept O_DIRECT are no disks.
#ifndef ASCPIPE_DISK_FILE_SYSTEM_H_
#define ASCPIPE_DISK_FILE_SYSTEM_H_

#include <cstdint>

namespace ascpipe {

enum class FileSystemKind : std::int32_t {
  kDisk = 0,     // ext, XFS, btrfs, F2FS, ZFS
  kMemory = 1,   // tmpfs, ramfs: rows "on disk" take memory
  kOverlay = 2,  // the layers of a container
  kNetwork = 3,
  kFuse = 4,
  kUnknown = 5,
};

struct FileSystem {
  FileSystemKind kind;
  const char* name;
};

// By the type that statfs(2) tells.
FileSystem FileSystemOfType(std::int64_t type);
FileSystem FileSystemOf(int fd);

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_FILE_SYSTEM_H_
