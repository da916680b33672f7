// CRC-32C (Castagnoli), as iSCSI, ext4 and the crc32 instruction of x86-64 compute it.
#ifndef ASCPIPE_DISK_CRC32C_H_
#define ASCPIPE_DISK_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {

// The sum of bytes that follow others, whose sum is `before`.  By the processor's instruction where it has one.
std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before = 0);

// The same by tables, on any processor.
std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_CRC32C_H_
