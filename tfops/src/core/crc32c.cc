#include "core/crc32c.h"

#include "core/crc32.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#define ASC_CRC_TARGET "sse4.2"
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#define ASC_CRC_TARGET "+crc"
#endif

#ifdef ASC_CRC_TARGET
#include <cstring>
#endif

namespace ascpipe {

std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before) {
  return CrcByTables<0x82F63B78u>(bytes, count, before);
}

#ifdef ASC_CRC_TARGET
namespace {

#if defined(__x86_64__)
#define ASC_CRC_OF_WORD(crc, word) static_cast<std::uint32_t>(_mm_crc32_u64(crc, word))
#define ASC_CRC_OF_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
bool HasInstruction() { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#define ASC_CRC_OF_WORD(crc, word) __crc32cd(crc, word)
#define ASC_CRC_OF_BYTE(crc, byte) __crc32cb(crc, byte)
bool HasInstruction() { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#endif

__attribute__((target(ASC_CRC_TARGET))) std::uint32_t Crc32cByInstruction(const void* bytes, std::size_t count,
                                                                          std::uint32_t before) {
  const std::uint8_t* at = static_cast<const std::uint8_t*>(bytes);
  std::uint32_t crc = ~before;
  for (; count >= sizeof(std::uint64_t); count -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    crc = ASC_CRC_OF_WORD(crc, word);
  }
  for (; count > 0; --count, ++at) crc = ASC_CRC_OF_BYTE(crc, *at);
  return ~crc;
}

using Sum = std::uint32_t (*)(const void*, std::size_t, std::uint32_t);

Sum Choose() { return HasInstruction() ? Crc32cByInstruction : Crc32cByTables; }

}  // namespace
#endif

std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before) {
#ifdef ASC_CRC_TARGET
  static const Sum sum = Choose();
  return sum(bytes, count, before);
#else
  return Crc32cByTables(bytes, count, before);
#endif
}

}  // namespace ascpipe
