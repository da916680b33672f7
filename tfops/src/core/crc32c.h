// CRC-32C (Castagnoli), the checksum of TFRecord files, iSCSI, ext4 and the crc32 instructions of processors.
#ifndef ASCPIPE_CORE_CRC32C_H_
#define ASCPIPE_CORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace ascpipe {

// Returns the CRC-32C of earlier bytes followed by `bytes`. `before` is the CRC-32C of the earlier bytes, or 0 if there
// are none. Uses the CRC instruction of x86-64 or AArch64 if the processor has it.
std::uint32_t Crc32c(const void* bytes, std::size_t count, std::uint32_t before = 0);

// Returns the same result as Crc32c, but always uses lookup tables instead of the CRC instruction.
std::uint32_t Crc32cByTables(const void* bytes, std::size_t count, std::uint32_t before = 0);

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CRC32C_H_
