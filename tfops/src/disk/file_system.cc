#include "disk/file_system.h"

#include <sys/vfs.h>

namespace ascpipe {

namespace {

struct Known {
  std::uint32_t type;
  FileSystem file_system;
};

// The file system types are literal values, because older <linux/magic.h> headers do not define all of them.
constexpr Known kKnown[] = {
    {0xEF53, {FileSystemKind::kDisk, "ext"}},           {0x58465342, {FileSystemKind::kDisk, "XFS"}},
    {0x9123683E, {FileSystemKind::kDisk, "btrfs"}},     {0xF2F52010, {FileSystemKind::kDisk, "F2FS"}},
    {0x2FC12FC1, {FileSystemKind::kDisk, "ZFS"}},       {0x01021994, {FileSystemKind::kMemory, "tmpfs"}},
    {0x858458F6, {FileSystemKind::kMemory, "ramfs"}},   {0x794C7630, {FileSystemKind::kOverlay, "overlay"}},
    {0x6969, {FileSystemKind::kNetwork, "NFS"}},        {0xFF534D42, {FileSystemKind::kNetwork, "CIFS"}},
    {0xFE534D42, {FileSystemKind::kNetwork, "SMB2"}},   {0x00C36400, {FileSystemKind::kNetwork, "Ceph"}},
    {0x0BD00BD0, {FileSystemKind::kNetwork, "Lustre"}}, {0x47504653, {FileSystemKind::kNetwork, "GPFS"}},
    {0x01021997, {FileSystemKind::kNetwork, "9p"}},     {0x65735546, {FileSystemKind::kFuse, "FUSE"}},
};

}  // namespace

FileSystem FileSystemOfType(std::int64_t type) {
  for (const Known& known : kKnown) {
    if (known.type == static_cast<std::uint32_t>(type)) return known.file_system;
  }
  return {FileSystemKind::kUnknown, "unknown"};
}

FileSystem FileSystemOf(int fd) {
  struct statfs status;
  if (fstatfs(fd, &status) != 0) return {FileSystemKind::kUnknown, "unknown"};
  return FileSystemOfType(static_cast<std::int64_t>(status.f_type));
}

}  // namespace ascpipe
