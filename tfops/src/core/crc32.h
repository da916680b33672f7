// Computes 32-bit CRC checksums with lookup tables, for any polynomial.
#ifndef ASCPIPE_CORE_CRC32_H_
#define ASCPIPE_CORE_CRC32_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ascpipe {

// Lookup tables of a reflected polynomial. after[k][b] is the checksum of byte b followed by k zero bytes.
struct CrcTables {
  static constexpr int kLanes = 8;  // bytes per step; four times as fast as one byte per step

  explicit CrcTables(std::uint32_t polynomial) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0u);
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

// Returns the CRC of earlier bytes followed by `bytes`. `before` is the CRC of the earlier bytes.
template <std::uint32_t kPolynomial>
std::uint32_t CrcByTables(const void* bytes, std::size_t count, std::uint32_t before) {
  static const CrcTables tables(kPolynomial);
  const auto& after = tables.after;
  const std::uint8_t* at = static_cast<const std::uint8_t*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= CrcTables::kLanes; count -= CrcTables::kLanes, at += CrcTables::kLanes) {
    std::uint64_t word;  // little-endian, as on all machines that TensorFlow 1.15 runs on
    std::memcpy(&word, at, sizeof(word));
    word ^= crc;
    crc = 0;
    for (int k = 0; k < CrcTables::kLanes; ++k) crc ^= after[CrcTables::kLanes - 1 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; count > 0; --count, ++at) crc = (crc >> 8) ^ after[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

// CRC-32 of zlib.
inline std::uint32_t Crc32(const void* bytes, std::size_t count, std::uint32_t before = 0) {
  return CrcByTables<0xEDB88320u>(bytes, count, before);
}

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CRC32_H_
