// Format of a row file. A file consists of blocks, and a block consists of slots of equal size. Each slot has a
// trailer. docs/internals/row_files.md describes the format.
#ifndef ASCPIPE_DISK_ROW_FORMAT_H_
#define ASCPIPE_DISK_ROW_FORMAT_H_

#include <cstdint>

namespace ascpipe {

constexpr std::int64_t kDiskPage = 4096;             // atomic write unit of disks, and alignment of O_DIRECT
constexpr std::int64_t kMostWriteBytes = 256 << 10;  // per write
constexpr std::int64_t kTrailerBytes = 8;
constexpr std::int64_t kMostRowBytes = kMostWriteBytes - kTrailerBytes;

// Trailer of each row. `mark` is the generation combined with a hash of key and slot. `crc` is the CRC-32C of row and
// mark. A slot can be verified without its key. An intact row of another key, slot or generation can be distinguished
// from a damaged row.
struct RowTrailer {
  std::uint32_t mark;
  std::uint32_t crc;
};
static_assert(sizeof(RowTrailer) == kTrailerBytes, "RowTrailer");

// Content of a slot.
enum Damage : std::int32_t {
  kWhole = 0,          // the wanted row
  kNeverWritten = -1,  // zeros
  kTorn = -2,          // partially written
  kForeign = -3,       // an intact row of another key or slot
  kStale = -4,         // an intact row of this key and slot, of another generation
};

const char* NameOf(Damage damage);

// Returns a hash of key and slot.
std::uint32_t OwnerMark(std::int64_t key, std::int64_t slot);

class RowFormat {
 public:
  // Returns true if the size of a row is supported: 1 to kMostRowBytes.
  static bool Fits(std::int64_t row_bytes) { return row_bytes >= 1 && row_bytes <= kMostRowBytes; }

  explicit RowFormat(std::int64_t row_bytes) : row_bytes_(row_bytes) {}

  std::int64_t row_bytes() const { return row_bytes_; }
  std::int64_t slot_bytes() const { return row_bytes_ + kTrailerBytes; }
  // Returns the size of a block: the size of one slot, rounded up to whole pages of 4 KiB.
  std::int64_t block_bytes() const { return (slot_bytes() + kDiskPage - 1) / kDiskPage * kDiskPage; }
  std::int64_t slots_per_block() const { return block_bytes() / slot_bytes(); }
  std::int64_t blocks_per_write() const { return kMostWriteBytes / block_bytes(); }

  std::int64_t BlockOf(std::int64_t slot) const { return slot / slots_per_block(); }
  // Returns the offset of a slot in its block, in bytes.
  std::int64_t OffsetOf(std::int64_t slot) const { return slot % slots_per_block() * slot_bytes(); }

  // Writes a row and its trailer to a slot. `at` is uint8[slot_bytes].
  void Seal(const void* row, std::int64_t key, std::int64_t slot, std::uint32_t generation, std::uint8_t* at) const;
  // Examines a slot, and returns the kind of its content. `at` is uint8[slot_bytes].
  Damage Examine(const std::uint8_t* at, std::int64_t key, std::int64_t slot, std::uint32_t generation) const;
  // Returns true if a slot is empty or contains an intact row of any key.
  bool IsSound(const std::uint8_t* at) const;

 private:
  RowTrailer TrailerOf(const std::uint8_t* at) const;
  std::uint32_t SumOf(const std::uint8_t* at) const;
  bool IsEmpty(const std::uint8_t* at) const;

  std::int64_t row_bytes_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_ROW_FORMAT_H_
