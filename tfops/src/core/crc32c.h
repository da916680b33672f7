// CRC-32C (Castagnoli), the checksum of TFRecord files, iSCSI, ext4 and the crc32 instructions of processors.
#ifndef ASCPIPE_CORE_CRC32C_H_
#define ASCPIPE_CORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {

// Continues a checksum. `before` is the CRC-32C of the earlier bytes, and 0 at the beginning. Returns the CRC-32C of
// the earlier bytes and `bytes` together. Uses the instruction of x86-64 or AArch64 if the processor has it.
std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before = 0);

// Returns the same result as Crc32c. Always uses lookup tables instead of the instruction.
std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CRC32C_H_
