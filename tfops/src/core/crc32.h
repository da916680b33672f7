// CRC-32 as zlib computes it.
#ifndef ASCPIPE_CORE_CRC32_H_
#define ASCPIPE_CORE_CRC32_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {

// CRC-32 (reflected polynomial 0xEDB88320) of bytes that follow others, whose CRC is `before`.
std::uint32_t Crc32(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CRC32_H_
