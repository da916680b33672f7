#include "core/crc32.h"

#include <cstring>

namespace ascpipe {

namespace {

constexpr int kLanes = 8;  // bytes that are looked up side by side, some four times as fast as one by one

// after[k][b]: what byte b becomes when k zero bytes follow it.
struct Tables {
  Tables() {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
      after[0][byte] = crc;
    }
    for (int k = 1; k < kLanes; ++k) {
      for (int byte = 0; byte < 256; ++byte) {
        const std::uint32_t crc = after[k - 1][byte];
        after[k][byte] = (crc >> 8) ^ after[0][crc & 0xFF];
      }
    }
  }

  std::uint32_t after[kLanes][256];
};

}  // namespace

std::uint32_t Crc32(const void* bytes, std::size_t count, std::uint32_t before) {
  static const Tables tables;
  const auto& after = tables.after;
  const std::uint8_t* at = static_cast<const std::uint8_t*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= kLanes; count -= kLanes, at += kLanes) {
    std::uint64_t word;  // little-endian, as all machines that TensorFlow 1.15 runs on
    std::memcpy(&word, at, sizeof(word));
    word ^= crc;
    crc = 0;
    for (int k = 0; k < kLanes; ++k) crc ^= after[kLanes - 1 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; count > 0; --count, ++at) crc = (crc >> 8) ^ after[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

}  // namespace ascpipe
