// Row file: creation without a name, growth, and adoption by another process.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "check.h"
#include "core/private_memory.h"
#include "disk/row_file.h"
#include "row_batches.h"

using namespace ascpipe;
using row_batches::Directory;
using row_batches::kSmallStep;

namespace {

bool Says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::unique_ptr<RowFile> Create(const std::string& directory, std::int64_t row_bytes, bool buffered = false) {
  std::unique_ptr<RowFile> file;
  CHECK_EQ(RowFile::Create(directory, row_bytes, buffered, &file).text(), "");
  return file;
}

std::int64_t SizeOf(int fd) {
  struct stat status;
  CHECK_EQ(fstat(fd, &status), 0);
  return status.st_size;
}

}  // namespace

TEST(AFileHasNoNameAndNoBlockBeforeItGrows) {
  const Directory directory;
  const auto file = Create(directory.path(), 128);
  CHECK_EQ(directory.Entries(), 0);
  CHECK_EQ(file->blocks(), 0);
  CHECK_EQ(file->slots(), 0);
  struct stat status;
  CHECK_EQ(fstat(file->fd(), &status), 0);
  CHECK_EQ(status.st_nlink, 0u);
  CHECK_EQ(status.st_mode & 0777, 0600u);
  CHECK_EQ(file->device(), status.st_dev);
  CHECK((fcntl(file->fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST(AFileGrowsInStepsThatAreReserved) {
  const Directory directory;
  const auto file = Create(directory.path(), 128);
  CHECK(file->Grow(1).ok());
  CHECK_EQ(file->blocks(), kGrowthBytes / 4096);
  CHECK(file->Grow(kGrowthBytes / 4096).ok());
  CHECK_EQ(file->blocks(), kGrowthBytes / 4096);
  CHECK(file->Grow(kGrowthBytes / 4096 + 1).ok());
  CHECK_EQ(SizeOf(file->fd()), 2 * kGrowthBytes);
  struct stat status;
  CHECK_EQ(fstat(file->fd(), &status), 0);
  CHECK(status.st_blocks * 512 >= 2 * kGrowthBytes);
}

TEST(BlocksOfLongRowsNeedNotDivideAStep) {
  const Directory directory;
  const auto file = Create(directory.path(), 9000);
  CHECK(file->Grow(100, kSmallStep).ok());
  CHECK_EQ(SizeOf(file->fd()), 2 * kSmallStep);
  CHECK_EQ(file->blocks(), 2 * kSmallStep / 12288);
}

TEST(WhatIsWrittenIsReadAlsoByTheNextOwner) {
  const Directory directory;
  for (const bool buffered : {false, true}) {
    const auto file = Create(directory.path(), 512, buffered);
    CHECK(!buffered || !file->is_direct());
    CHECK(file->Grow(8, kSmallStep).ok());
    const PrivateArray<std::uint8_t> written(8192), read(8192);
    std::memset(written.get(), 9, 8192);
    CHECK_EQ(file->Write(3, 2, written.get()), 0);
    CHECK_EQ(file->Sync(), 0);
    std::unique_ptr<RowFile> next;
    CHECK_EQ(RowFile::Adopt(file->fd(), directory.path(), 512, &next).text(), "");
    CHECK_EQ(next->blocks(), file->blocks());
    CHECK_EQ(next->is_direct(), file->is_direct());
    CHECK_EQ(next->Read(3, 2, read.get()), 0);
    CHECK(std::memcmp(read.get(), written.get(), 8192) == 0);
    CHECK_EQ(next->Read(5, 1, read.get()), 0);
    CHECK_EQ(read.get()[0], 0);                                // space that was never written
    CHECK_EQ(next->Read(next->blocks(), 1, read.get()), EIO);  // a read at the end is short
  }
}

TEST(AFileSystemInMemoryIsToldThoughItHasODirect) {
  const Directory directory("/dev/shm");
  const auto file = Create(directory.path(), 128);
  CHECK_EQ(static_cast<int>(file->file_system().kind), static_cast<int>(FileSystemKind::kMemory));
  CHECK_EQ(std::string(file->file_system().name), "tmpfs");
}

TEST(FileSystemsAreKnownByTheirTypes) {
  const auto kind = [](std::int64_t type) { return static_cast<int>(FileSystemOfType(type).kind); };
  CHECK_EQ(kind(0xEF53), static_cast<int>(FileSystemKind::kDisk));
  CHECK_EQ(kind(0x794C7630), static_cast<int>(FileSystemKind::kOverlay));
  CHECK_EQ(kind(0x6969), static_cast<int>(FileSystemKind::kNetwork));
  CHECK_EQ(kind(0x65735546), static_cast<int>(FileSystemKind::kFuse));
  CHECK_EQ(kind(static_cast<std::int32_t>(0xFF534D42)),
           static_cast<int>(FileSystemKind::kNetwork));  // sign-extended, because f_type is a long
  CHECK_EQ(kind(1), static_cast<int>(FileSystemKind::kUnknown));
}

TEST(AFileThatCannotGrowIsAsItWasAndTheTextHasNeedAndRoom) {
  for (const char* const parent : {static_cast<const char*>(nullptr), "/dev/shm"}) {
    const Directory directory(parent);
    const auto file = Create(directory.path(), 128);
    CHECK(file->Grow(1, kSmallStep).ok());
    const CoreStatus status = file->Grow(std::int64_t{1} << 40, kSmallStep);
    CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kResourceExhausted));
    CHECK(Says(status.text(), directory.path() + " needs 4503599626321920 bytes more, and "));
    CHECK_EQ(SizeOf(file->fd()), kSmallStep);
    CHECK_EQ(file->blocks(), kSmallStep / 4096);
  }
}

TEST(WhatIsNoRowFileIsRefused) {
  const Directory directory;
  std::unique_ptr<RowFile> file;
  CHECK(Says(RowFile::Create(directory.path() + "/none", 4, false, &file).text(), "No such file or directory"));
  CHECK(Says(RowFile::Create(directory.path(), 0, false, &file).text(), "a row of 0 bytes"));
  CHECK(Says(RowFile::Create(directory.path(), kMostRowBytes + 1, false, &file).text(), "1 to 262136"));
  CHECK(Says(RowFile::Adopt(-1, directory.path(), 4, &file).text(), "Bad file descriptor"));
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  CHECK(Says(RowFile::Adopt(ends[0], directory.path(), 4, &file).text(), "is not one of a file"));
  close(ends[0]);
  close(ends[1]);
  CHECK(file == nullptr);
  const auto made = Create(directory.path(), 4);
  CHECK_EQ(static_cast<int>(made->Grow(std::int64_t{1} << 62).code()), static_cast<int>(Code::kInvalidArgument));
}
