#include "disk/crc32c.h"

#include "core/crc32.h"

#ifdef __x86_64__
#include <nmmintrin.h>

#include <cstring>
#endif

namespace ascpipe {

std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before) {
  return CrcByTables<0x82F63B78u>(bytes, count, before);
}

#ifdef __x86_64__
namespace {

__attribute__((target("sse4.2"))) std::uint32_t Crc32cByInstruction(const void* bytes, std::size_t count,
                                                                    std::uint32_t before) {
  const std::uint8_t* at = static_cast<const std::uint8_t*>(bytes);
  std::uint64_t crc = ~before;
  for (; count >= sizeof(std::uint64_t); count -= sizeof(std::uint64_t), at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    crc = _mm_crc32_u64(crc, word);
  }
  std::uint32_t rest = static_cast<std::uint32_t>(crc);
  for (; count > 0; --count, ++at) rest = _mm_crc32_u8(rest, *at);
  return ~rest;
}

using Sum = std::uint32_t (*)(const void*, std::size_t, std::uint32_t);

Sum Choose() { return __builtin_cpu_supports("sse4.2") ? Crc32cByInstruction : Crc32cByTables; }

}  // namespace
#endif

std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before) {
#ifdef __x86_64__
  static const Sum sum = Choose();
  return sum(bytes, count, before);
#else
  return Crc32cByTables(bytes, count, before);
#endif
}

}  // namespace ascpipe
