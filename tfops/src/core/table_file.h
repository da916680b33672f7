// Table file: the keys and rows of one table, as an asset of a SavedModel or as a part of an update.
// docs/how-to/saved_models.md describes the use of table files.
#ifndef ASCPIPE_CORE_TABLE_FILE_H_
#define ASCPIPE_CORE_TABLE_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/blocks.h"
#include "core/core_status.h"
#include "core/private_memory.h"
#include "core/row_table.h"

namespace ascpipe {

// The header and the sections of row_table.h are followed by checksums, without padding. `sums` is uint32[] and
// contains the CRC-32 of each MiB of the header and the sections. `seal` is uint32 and contains the CRC-32 of `sums`.
constexpr char kTableFileMagic[9] = "ASCTABLE";
constexpr std::uint32_t kTableFileVersion = 1;
constexpr std::int64_t kTableFilePiece = 1 << 20;  // bytes per checksum

// A verified table file, mapped or in memory. The class is thread-safe.
class TableFile : public RowTable {
 public:
  // Function that calls work(begin, end) for blocks of [0, total), on any number of threads.
  using Share = std::function<void(std::int64_t total, std::int64_t block, const Blocks::Work& work)>;

  // A part of a file that contains a table file.
  struct Part {
    std::int64_t offset;  // a multiple of 64
    std::int64_t bytes;
    std::uint32_t seal;  // expected seal
    bool is_update;      // The part is a delta: it may delete keys, and is copied to memory instead of mapped.
  };

  // Maps a file, and verifies the sizes, the checksums and the row number of every entry. `seal` is the expected seal.
  // Returns DATA_LOSS for a damaged file, and FAILED_PRECONDITION for a file with an unexpected seal or version.
  static CoreStatus Open(const std::string& path, std::uint32_t seal, const Share& share,
                         std::unique_ptr<TableFile>* file);
  // Opens a part of the file `fd`. The file must contain the whole part. The caller keeps ownership of `fd`. `path` is
  // only for errors.
  static CoreStatus OpenPart(const std::string& path, int fd, const Part& part, const Share& share,
                             std::unique_ptr<TableFile>* file);
  ~TableFile() override;

  // Looks up keys in this table, like RowTable::LookUp.
  template <typename Key>
  void LookUp(const Key* keys, std::int64_t begin, std::int64_t end, const float* default_row, float* out,
              bool* found = nullptr) const {
    const RowTable* const table = this;
    RowTable::LookUp({&table, 1}, keys, begin, end, default_row, out, found);
  }

 private:
  TableFile(std::string path, int fd, const Part& part) : path_(std::move(path)), fd_(fd), part_(part) {}

  CoreStatus ReadFile();
  CoreStatus FindSections();
  CoreStatus CheckSums(const Share& share) const;
  CoreStatus CheckEntries(const Share& share) const;
  bool SumIsRight(std::int64_t piece) const;
  bool EntryIsRight(std::int64_t entry) const;

  template <typename... Parts>
  CoreStatus Damaged(const Parts&... parts) const;

  const std::string path_;
  const int fd_;  // only valid while the file is opened
  const Part part_;
  void* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  PrivateArray<std::uint8_t> copy_;
  std::int64_t body_bytes_ = 0;  // bytes covered by checksums
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_TABLE_FILE_H_
