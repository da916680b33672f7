// CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and the crc32 instruction of x86-64.
#ifndef ASCPIPE_DISK_CRC32C_H_
#define ASCPIPE_DISK_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {

// Returns the CRC-32C of the bytes processed so far, followed by `bytes`. `before` is the CRC-32C of the bytes
// processed so far. Uses the crc32 instruction if the processor has it.
std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before = 0);

// Returns the result of Crc32c, but computes it with lookup tables on any processor.
std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace ascpipe

#endif  // ASCPIPE_DISK_CRC32C_H_
