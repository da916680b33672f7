#include "core/table_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/crc32.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMaxDim = 8192;
constexpr std::uint32_t kMaxBucketBits = 40;
constexpr std::int64_t kSumBytes = sizeof(std::uint32_t);
constexpr std::int64_t kReadBytes = 1 << 16;  // bytes per read for checksums
constexpr std::int64_t kEntriesAtOnce = 1 << 14;

// Reads exactly `count` bytes. Returns 0 or an errno. If the file ends too early, the errno is EIO.
int ReadAt(int fd, std::int64_t at, std::uint8_t* out, std::int64_t count) {
  while (count > 0) {
    const ssize_t got = pread(fd, out, static_cast<std::size_t>(count), at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EIO;
    at += got;
    out += got;
    count -= got;
  }
  return 0;
}

}  // namespace

template <typename... Parts>
CoreStatus TableFile::Damaged(const Parts&... parts) const {
  return Error(
      Code::kDataLoss, "table file ", path_, " is damaged: ", parts...,
      part_.is_update ? "" : ". Nothing of it is used. Copy the exported SavedModel again, or export it again");
}

CoreStatus TableFile::Open(const std::string& path, std::uint32_t seal, const Share& share,
                           std::unique_ptr<TableFile>* file) {
  const auto refused = [&path](int error) {
    return Error(Code::kFailedPrecondition, "table file ", path, " cannot be read: ", std::strerror(error),
                 ". It belongs into the assets of the exported SavedModel, on a file system that can be mapped");
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return refused(errno);
  struct stat status;
  const int error = fstat(fd, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EINVAL;
  const CoreStatus opened =
      error != 0 ? refused(error) : OpenPart(path, fd, {0, status.st_size, seal, false}, share, file);
  close(fd);
  return opened;
}

CoreStatus TableFile::OpenPart(const std::string& path, int fd, const Part& part, const Share& share,
                               std::unique_ptr<TableFile>* file) {
  std::unique_ptr<TableFile> opened(new TableFile(path, fd, part));
  CoreStatus found = opened->ReadFile();
  if (found.ok()) found = opened->FindSections();
  if (found.ok()) found = opened->CheckSums(share);
  if (found.ok()) found = opened->CheckEntries(share);
  if (!found.ok()) return found;
  // Read-ahead is useless, because rows are read in random order. A failure of madvise is ignored.
  if (opened->map_ != nullptr) (void)madvise(opened->map_, opened->map_bytes_, MADV_RANDOM);
  *file = std::move(opened);
  return CoreStatus();
}

TableFile::~TableFile() {
  if (map_ != nullptr) munmap(map_, map_bytes_);
}

// Maps the part, or copies it to memory. A file must not change while it is mapped. The copy is verified after it is
// complete, so that a change of the file during the copy is detected.
CoreStatus TableFile::ReadFile() {
  int error = 0;
  if (part_.is_update) {
    PrivateArray<std::uint8_t> copy(part_.bytes);
    if (copy.get() == nullptr) {
      return Error(Code::kResourceExhausted, "table file ", path_, " needs ", part_.bytes, " bytes of memory");
    }
    error = ReadAt(fd_, part_.offset, copy.get(), part_.bytes);
    copy_ = std::move(copy);
    base_ = copy_.get();
  } else {
    // At least one byte is mapped, because mmap fails for zero bytes. FindSections rejects an empty file.
    const std::int64_t start = part_.offset / sysconf(_SC_PAGESIZE) * sysconf(_SC_PAGESIZE);
    map_bytes_ = static_cast<std::size_t>(std::max<std::int64_t>(part_.offset + part_.bytes - start, 1));
    void* const map = mmap(nullptr, map_bytes_, PROT_READ, MAP_SHARED, fd_, start);
    if (map == MAP_FAILED) {
      error = errno;
    } else {
      map_ = map;
      base_ = static_cast<const std::uint8_t*>(map) + (part_.offset - start);
    }
  }
  if (error == 0) return CoreStatus();
  return Error(Code::kFailedPrecondition, "table file ", path_, " cannot be read: ", std::strerror(error),
               ". It belongs on a file system that can be mapped");
}

// Computes the positions of the sections from the header. First compares the sizes in the header with the file size, so
// that no position can overflow.
CoreStatus TableFile::FindSections() {
  constexpr std::int64_t kHeader = sizeof(TableFileHeader);
  if (part_.bytes < kHeader) return Damaged("it has ", part_.bytes, " bytes, its header alone ", kHeader);
  const TableFileHeader& head = header();
  if (std::memcmp(head.magic, kTableFileMagic, sizeof(head.magic)) != 0) {
    return Damaged("it does not begin with ", kTableFileMagic);
  }
  if (head.version != kTableFileVersion) {
    return Error(Code::kFailedPrecondition, "table file ", path_, " has version ", head.version,
                 ", this library reads version ", kTableFileVersion, ". Load the op library it was exported with");
  }
  constexpr std::int64_t kEntry = sizeof(TableFileEntry), kFloat = sizeof(float);
  if (head.dim < 1 || head.dim > kMaxDim || head.bucket_bits > kMaxBucketBits || head.key_count < 0 ||
      head.key_count > part_.bytes / kEntry || head.deleted < 0 || head.deleted > head.key_count ||
      (head.deleted > 0 && !part_.is_update) ||
      head.key_count - head.deleted > part_.bytes / (kEntry + head.dim * kFloat)) {
    return Damaged("its header says ", head.key_count, " rows of ", head.dim, " floats in 2^", head.bucket_bits,
                   " buckets, and it has ", part_.bytes, " bytes");
  }
  body_bytes_ = SectionsOf(head).end;
  const std::int64_t pieces = (body_bytes_ + kTableFilePiece - 1) / kTableFilePiece;
  if (body_bytes_ + (pieces + 1) * kSumBytes != part_.bytes) {
    return Damaged("it has ", part_.bytes, " bytes instead of ", body_bytes_ + (pieces + 1) * kSumBytes);
  }
  Set(base_);
  return CoreStatus();
}

CoreStatus TableFile::CheckSums(const Share& share) const {
  const std::int64_t sum_bytes = part_.bytes - body_bytes_ - kSumBytes;
  std::uint32_t found;
  std::memcpy(&found, base_ + body_bytes_ + sum_bytes, sizeof(found));
  if (Crc32(base_ + body_bytes_, static_cast<std::size_t>(sum_bytes)) != found) {
    return Damaged("its sums, from byte ", body_bytes_, ", are not those that were written");
  }
  FirstBad bad;
  share(sum_bytes / kSumBytes, 1, [this, &bad](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      if (!SumIsRight(piece)) bad.Note(piece);
    }
  });
  if (bad.at() >= 0) {
    const std::int64_t begin = bad.at() * kTableFilePiece;
    return Damaged("bytes ", begin, " to ", std::min(begin + kTableFilePiece, body_bytes_),
                   " cannot be read or are not those that were written");
  }
  if (found != part_.seal) {
    return Error(Code::kFailedPrecondition, "table file ", path_,
                 " is complete, but belongs to another export than this graph ", "(seal ", found, " instead of ",
                 part_.seal, "). Load graph and assets of one export");
  }
  return CoreStatus();
}

// Verifies the checksum of one piece. Mapped files are read with pread, because a disk error during an access to the
// mapping would raise a signal.
bool TableFile::SumIsRight(std::int64_t piece) const {
  const std::int64_t begin = piece * kTableFilePiece;
  const std::int64_t end = std::min(begin + kTableFilePiece, body_bytes_);
  std::uint8_t buffer[kReadBytes];
  std::uint32_t crc = 0;
  for (std::int64_t at = begin; at < end; at += kReadBytes) {
    const std::int64_t count = std::min(kReadBytes, end - at);
    if (map_ != nullptr && ReadAt(fd_, part_.offset + at, buffer, count) != 0) return false;
    crc = Crc32(map_ != nullptr ? buffer : base_ + at, static_cast<std::size_t>(count), crc);
  }
  std::uint32_t wanted;
  std::memcpy(&wanted, base_ + body_bytes_ + piece * kSumBytes, sizeof(wanted));
  return crc == wanted;
}

// Checks that no lookup can read outside the file, because checksums do not detect errors of the program that wrote the
// file.
CoreStatus TableFile::CheckEntries(const Share& share) const {
  const std::int64_t n = key_count();
  const std::int64_t bucket_count = std::int64_t{1} << header().bucket_bits;
  FirstBad bad_bucket, bad_entry;
  if (buckets_[0] != 0) bad_bucket.Note(0);
  if (buckets_[bucket_count] != n) bad_bucket.Note(bucket_count);
  share(bucket_count, kEntriesAtOnce, [this, &bad_bucket](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bucket = begin; bucket < end; ++bucket) {
      if (buckets_[bucket] > buckets_[bucket + 1]) bad_bucket.Note(bucket);
    }
  });
  if (bad_bucket.at() >= 0) return Damaged("bucket ", bad_bucket.at(), " does not end where the next one begins");
  share(n, kEntriesAtOnce, [this, &bad_entry](std::int64_t begin, std::int64_t end) {
    for (std::int64_t entry = begin; entry < end; ++entry) {
      if (!EntryIsRight(entry)) bad_entry.Note(entry);
    }
  });
  if (bad_entry.at() >= 0) {
    const TableFileEntry& entry = entries_[bad_entry.at()];
    return Damaged("entry ", bad_entry.at(), " of key ", entry.key, " names row ", entry.row, " of ", row_count(),
                   ", or is not in its place");
  }
  return CoreStatus();
}

bool TableFile::EntryIsRight(std::int64_t entry) const {
  const std::uint64_t hash = KeyHash(entries_[entry].key);
  const std::int64_t bucket = BucketOf(hash);
  const std::int64_t least = part_.is_update ? -1 : 0;
  return entries_[entry].row >= least && entries_[entry].row < row_count() && buckets_[bucket] <= entry &&
         entry < buckets_[bucket + 1] && (entry == 0 || KeyHash(entries_[entry - 1].key) < hash);
}

}  // namespace ascpipe
