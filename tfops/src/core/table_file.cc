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

constexpr std::int64_t kSection = 64;  // alignment of sections
constexpr std::int64_t kMaxDim = 8192;
constexpr std::uint32_t kMaxBucketBits = 40;
constexpr std::int64_t kSumBytes = sizeof(std::uint32_t);
constexpr std::int64_t kReadBytes = 1 << 16;  // bytes per read for checksums
constexpr std::int64_t kEntriesAtOnce = 1 << 14;
constexpr int kTogether = 32;  // keys whose cache misses overlap

std::int64_t SectionEnd(std::int64_t bytes) { return (bytes + kSection - 1) / kSection * kSection; }

}  // namespace

template <typename... Parts>
CoreStatus TableFile::Damaged(const Parts&... parts) const {
  return Error(Code::kDataLoss, "table file ", path_, " is damaged: ", parts...,
               ". Nothing of it is used. Copy the exported SavedModel again, or export it again");
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
  int error = fstat(fd, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EINVAL;
  void* base = MAP_FAILED;
  std::int64_t bytes = 0;
  if (error == 0) {
    bytes = status.st_size;
    // An empty file cannot be mapped, so at least one byte is mapped. The check of the size below rejects an empty
    // file.
    base = mmap(nullptr, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)), PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    close(fd);
    return refused(error);
  }
  std::unique_ptr<TableFile> opened(new TableFile(path, fd, static_cast<std::uint8_t*>(base), bytes));
  CoreStatus found = opened->FindSections();
  if (found.ok()) found = opened->CheckSums(seal, share);
  if (found.ok()) found = opened->CheckEntries(share);
  if (!found.ok()) return found;
  // Rows are read at random, so read-ahead is useless. The hint may fail.
  (void)madvise(base, static_cast<std::size_t>(bytes), MADV_RANDOM);
  *file = std::move(opened);
  return CoreStatus();
}

TableFile::~TableFile() {
  munmap(base_, static_cast<std::size_t>(std::max<std::int64_t>(bytes_, 1)));
  close(fd_);
}

// Computes the positions of the sections from the header. The sizes in the header are compared with the file size
// first, so that no position can overflow.
CoreStatus TableFile::FindSections() {
  constexpr std::int64_t kHeader = sizeof(TableFileHeader);
  if (bytes_ < kHeader) return Damaged("it has ", bytes_, " bytes, its header alone ", kHeader);
  const TableFileHeader& head = header();
  if (std::memcmp(head.magic, kTableFileMagic, sizeof(head.magic)) != 0) {
    return Damaged("it does not begin with ", kTableFileMagic);
  }
  if (head.version != kTableFileVersion) {
    return Error(Code::kFailedPrecondition, "table file ", path_, " has version ", head.version,
                 ", this library reads version ", kTableFileVersion, ". Load the op library it was exported with");
  }
  constexpr std::int64_t kEntry = sizeof(TableFileEntry), kFloat = sizeof(float);
  if (head.dim < 1 || head.dim > kMaxDim || head.bucket_bits > kMaxBucketBits || head.row_count < 0 ||
      head.row_count > bytes_ / (kEntry + head.dim * kFloat)) {
    return Damaged("its header says ", head.row_count, " rows of ", head.dim, " floats in 2^", head.bucket_bits,
                   " buckets, and it has ", bytes_, " bytes");
  }
  const std::int64_t bucket_count = std::int64_t{1} << head.bucket_bits;
  constexpr std::int64_t kBucket = sizeof(std::int64_t);
  const std::int64_t entries_at = SectionEnd(kHeader + (bucket_count + 1) * kBucket);
  const std::int64_t rows_at = SectionEnd(entries_at + head.row_count * kEntry);
  body_bytes_ = rows_at + head.row_count * head.dim * kFloat;
  const std::int64_t pieces = (body_bytes_ + kTableFilePiece - 1) / kTableFilePiece;
  if (body_bytes_ + (pieces + 1) * kSumBytes != bytes_) {
    return Damaged("it has ", bytes_, " bytes instead of ", body_bytes_ + (pieces + 1) * kSumBytes);
  }
  buckets_ = reinterpret_cast<const std::int64_t*>(base_ + kHeader);
  entries_ = reinterpret_cast<const TableFileEntry*>(base_ + entries_at);
  rows_ = reinterpret_cast<const float*>(base_ + rows_at);
  return CoreStatus();
}

CoreStatus TableFile::CheckSums(std::uint32_t seal, const Share& share) const {
  const std::int64_t sum_bytes = bytes_ - body_bytes_ - kSumBytes;
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
  if (found != seal) {
    return Error(Code::kFailedPrecondition, "table file ", path_,
                 " is complete, but belongs to another export than this graph ", "(seal ", found, " instead of ", seal,
                 "). Load graph and assets of one export");
  }
  return CoreStatus();
}

// Verifies the checksum of one piece. The function uses pread, because a disk error raises a signal if the data is read
// through the mapping.
bool TableFile::SumIsRight(std::int64_t piece) const {
  std::int64_t at = piece * kTableFilePiece;
  const std::int64_t end = std::min(at + kTableFilePiece, body_bytes_);
  std::uint8_t buffer[kReadBytes];
  std::uint32_t crc = 0;
  while (at < end) {
    const ssize_t count = pread(fd_, buffer, static_cast<std::size_t>(std::min(kReadBytes, end - at)), at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    crc = Crc32(buffer, static_cast<std::size_t>(count), crc);
    at += count;
  }
  std::uint32_t wanted;
  std::memcpy(&wanted, base_ + body_bytes_ + piece * kSumBytes, sizeof(wanted));
  return crc == wanted;
}

// Checks that no lookup can read outside the file, even if the writer was faulty. Checksums detect only damage.
CoreStatus TableFile::CheckEntries(const Share& share) const {
  const std::int64_t n = row_count();
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
    return Damaged("entry ", bad_entry.at(), " of key ", entry.key, " names row ", entry.row, " of ", n,
                   ", or is not in its place");
  }
  return CoreStatus();
}

bool TableFile::EntryIsRight(std::int64_t entry) const {
  const std::uint64_t hash = KeyHash(entries_[entry].key);
  const std::int64_t bucket = BucketOf(hash);
  return entries_[entry].row >= 0 && entries_[entry].row < row_count() && buckets_[bucket] <= entry &&
         entry < buckets_[bucket + 1] && (entry == 0 || KeyHash(entries_[entry - 1].key) < hash);
}

const float* TableFile::Find(std::int64_t key, std::int64_t bucket) const {
  for (std::int64_t entry = buckets_[bucket]; entry < buckets_[bucket + 1]; ++entry) {
    if (entries_[entry].key == key) return rows_ + entries_[entry].row * dim();
  }
  return nullptr;
}

template <typename Key>
void TableFile::LookUp(const Key* keys, std::int64_t begin, std::int64_t end, const float* default_row, float* out,
                       bool* found) const {
  const std::int64_t dim = this->dim();
  const std::size_t row_bytes = static_cast<std::size_t>(dim) * sizeof(float);
  std::int64_t buckets[kTogether];
  const float* rows[kTogether];
  for (std::int64_t at = begin; at < end; at += kTogether) {
    const int n = static_cast<int>(std::min<std::int64_t>(kTogether, end - at));
    for (int i = 0; i < n; ++i) {
      buckets[i] = BucketOf(KeyHash(keys[at + i]));
      __builtin_prefetch(buckets_ + buckets[i]);
    }
    for (int i = 0; i < n; ++i) __builtin_prefetch(entries_ + buckets_[buckets[i]]);
    for (int i = 0; i < n; ++i) {
      rows[i] = Find(keys[at + i], buckets[i]);
      if (found != nullptr) found[at + i] = rows[i] != nullptr;
      if (rows[i] == nullptr) rows[i] = default_row;
      __builtin_prefetch(rows[i]);
    }
    for (int i = 0; i < n; ++i) std::memcpy(out + (at + i) * dim, rows[i], row_bytes);
  }
}

template void TableFile::LookUp(const std::int32_t*, std::int64_t, std::int64_t, const float*, float*, bool*) const;
template void TableFile::LookUp(const std::int64_t*, std::int64_t, std::int64_t, const float*, float*, bool*) const;

}  // namespace ascpipe
