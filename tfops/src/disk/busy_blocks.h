// Bitmap of busy blocks. A block of a row file is busy while an operation uses the block. The owner of the bitmap must
// guard the bitmap with a mutex.
#ifndef ASCPIPE_DISK_BUSY_BLOCKS_H_
#define ASCPIPE_DISK_BUSY_BLOCKS_H_

#include <cstdint>
#include <vector>

namespace ascpipe {

class BusyBlocks {
 public:
  // Marks `count` blocks as busy, starting with block `first`. Returns false, and marks no block, if one of the blocks
  // is already busy.
  bool Take(std::int64_t first, std::int64_t count) {
    const std::size_t words = static_cast<std::size_t>((first + count + kBits - 1) / kBits);
    if (words_.size() < words) words_.resize(words, 0);
    for (std::int64_t block = first; block < first + count; ++block) {
      if ((WordOf(block) & BitOf(block)) != 0) return false;
    }
    for (std::int64_t block = first; block < first + count; ++block) WordOf(block) |= BitOf(block);
    return true;
  }

  void Release(std::int64_t first, std::int64_t count) {
    for (std::int64_t block = first; block < first + count; ++block) WordOf(block) &= ~BitOf(block);
  }

 private:
  static constexpr std::int64_t kBits = 64;

  std::uint64_t& WordOf(std::int64_t block) { return words_[static_cast<std::size_t>(block / kBits)]; }
  static std::uint64_t BitOf(std::int64_t block) { return std::uint64_t{1} << (block % kBits); }

  std::vector<std::uint64_t> words_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_BUSY_BLOCKS_H_
