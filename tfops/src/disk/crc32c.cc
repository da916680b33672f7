#include "disk/crc32c.h"

#include <cstring>

#ifdef __x86_64__
#include <nmmintrin.h>
#endif

namespace ascpipe {

namespace {

constexpr int kLanes = 8;  // bytes that are looked up side by side

// after[k][b]: what byte b becomes when k zero bytes follow it.
struct Tables {
  Tables() {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
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

std::uint64_t WordAt(const std::uint8_t* at) {  // little-endian, as all machines that TensorFlow 1.15 runs on
  std::uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) std::uint32_t Crc32cByInstruction(const void* bytes, std::size_t count,
                                                                    std::uint32_t before) {
  const std::uint8_t* at = static_cast<const std::uint8_t*>(bytes);
  std::uint64_t crc = ~before;
  for (; count >= sizeof(std::uint64_t); count -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    crc = _mm_crc32_u64(crc, WordAt(at));
  }
  std::uint32_t rest = static_cast<std::uint32_t>(crc);
  for (; count > 0; --count, ++at) rest = _mm_crc32_u8(rest, *at);
  return ~rest;
}

using Sum = std::uint32_t (*)(const void*, std::size_t, std::uint32_t);

Sum Choose() { return __builtin_cpu_supports("sse4.2") ? Crc32cByInstruction : Crc32cByTables; }
#endif

}  // namespace

std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before) {
  static const Tables tables;
  const auto& after = tables.after;
  const std::uint8_t* at = static_cast<const std::uint8_t*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= kLanes; count -= kLanes, at += kLanes) {
    const std::uint64_t word = WordAt(at) ^ crc;
    crc = 0;
    for (int k = 0; k < kLanes; ++k) crc ^= after[kLanes - 1 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; count > 0; --count, ++at) crc = (crc >> 8) ^ after[0][(crc ^ *at) & 0xFF];
  return ~crc;
}

std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before) {
#ifdef __x86_64__
  static const Sum sum = Choose();
  return sum(bytes, count, before);
#else
  return Crc32cByTables(bytes, count, before);
#endif
}

}  // namespace ascpipe
