// Table file: an asset of a SavedModel that contains the keys and rows of one table. docs/how-to/saved_models.md
// describes its use.
#ifndef ASCPIPE_CORE_TABLE_FILE_H_
#define ASCPIPE_CORE_TABLE_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/blocks.h"
#include "core/core_status.h"

namespace ascpipe {

// Header of the file. All numbers are little-endian. The header is followed by three sections, each aligned to 64
// bytes.
//   `buckets` is int64[2^bucket_bits + 1] and contains the index of the first entry of each bucket, followed by
//   row_count.
//   `entries` is TableFileEntry[row_count], in ascending order of KeyHash(key). The upper bits of the hash are the
//   number of the bucket.
//   `rows` is float[row_count, dim].
// The sections are followed by checksums, without padding.
//   `sums` is uint32[] and contains the CRC-32 of each MiB of the header and the sections.
//   `seal` is uint32 and contains the CRC-32 of the sums.
struct TableFileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t bucket_bits;
  std::int64_t dim;
  std::int64_t row_count;
  std::uint8_t zeros[32];
};
static_assert(sizeof(TableFileHeader) == 64, "see ascpipe/checkpoint/table_file.py");

struct TableFileEntry {
  std::int64_t key;
  std::int64_t row;
};

constexpr char kTableFileMagic[9] = "ASCTABLE";
constexpr std::uint32_t kTableFileVersion = 1;
constexpr std::int64_t kTableFilePiece = 1 << 20;  // bytes per checksum

// Bijective 64-bit hash of a key.
inline std::uint64_t KeyHash(std::int64_t key) {
  std::uint64_t hash = static_cast<std::uint64_t>(key);
  hash ^= hash >> 33;
  hash *= 0xFF51AFD7ED558CCDull;
  hash ^= hash >> 33;
  hash *= 0xC4CEB9FE1A85EC53ull;
  return hash ^ (hash >> 33);
}

// A mapped and verified table file. The class is thread-safe.
class TableFile {
 public:
  // Function that calls work(begin, end) for blocks of [0, total), on any number of threads.
  using Share = std::function<void(std::int64_t total, std::int64_t block, const Blocks::Work& work)>;

  // Maps a file and verifies its sizes, its checksums, and the row number of every entry. `seal` is the expected seal.
  // Returns DATA_LOSS for a damaged file. Returns FAILED_PRECONDITION for a file with another seal or version.
  static CoreStatus Open(const std::string& path, std::uint32_t seal, const Share& share,
                         std::unique_ptr<TableFile>* file);
  ~TableFile();
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  std::int64_t dim() const { return header().dim; }
  std::int64_t row_count() const { return header().row_count; }

  // For each i in [begin, end), copies the row of keys[i] to out[i]. If the table does not contain the key, copies
  // `default_row` to out[i]. Key is int32 or int64, `default_row` is float[dim], and `out` is float[end, dim]. `found`
  // may be null. Otherwise `found` is bool[end], and found[i] is set to true if the table contains keys[i], else to
  // false.
  template <typename Key>
  void LookUp(const Key* keys, std::int64_t begin, std::int64_t end, const float* default_row, float* out,
              bool* found = nullptr) const;

 private:
  TableFile(std::string path, int fd, std::uint8_t* base, std::int64_t bytes)
      : path_(std::move(path)), fd_(fd), base_(base), bytes_(bytes) {}

  const TableFileHeader& header() const { return *reinterpret_cast<const TableFileHeader*>(base_); }
  CoreStatus FindSections();
  CoreStatus CheckSums(std::uint32_t seal, const Share& share) const;
  CoreStatus CheckEntries(const Share& share) const;
  std::int64_t BucketOf(std::uint64_t hash) const {
    const std::uint32_t bits = header().bucket_bits;
    return bits == 0 ? 0 : static_cast<std::int64_t>(hash >> (64 - bits));
  }
  bool SumIsRight(std::int64_t piece) const;
  bool EntryIsRight(std::int64_t entry) const;
  const float* Find(std::int64_t key, std::int64_t bucket) const;

  template <typename... Parts>
  CoreStatus Damaged(const Parts&... parts) const;

  const std::string path_;
  const int fd_;
  std::uint8_t* const base_;
  const std::int64_t bytes_;
  std::int64_t body_bytes_ = 0;  // bytes covered by checksums
  const std::int64_t* buckets_ = nullptr;
  const TableFileEntry* entries_ = nullptr;
  const float* rows_ = nullptr;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_TABLE_FILE_H_
