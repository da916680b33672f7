#include "disk/row_format.h"

#include <algorithm>
#include <cstring>

#include "core/crc32c.h"

namespace ascpipe {

namespace {

constexpr std::uint32_t kNearGenerations = 1 << 16;  // a larger difference means another key or slot

std::uint64_t Mixed(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93ull;
  value ^= value >> 32;
  value *= 0xD6E8FEB86659FD93ull;
  return value ^ (value >> 32);
}

}  // namespace

const char* NameOf(Damage damage) {
  switch (damage) {
    case kWhole:
      return "whole";
    case kNeverWritten:
      return "never written";
    case kTorn:
      return "torn";
    case kForeign:
      return "of another key or slot";
    case kStale:
      return "of another generation";
  }
  return "unknown";
}

std::uint32_t OwnerMark(std::int64_t key, std::int64_t slot) {
  const std::uint64_t mixed = Mixed(static_cast<std::uint64_t>(key) ^ Mixed(static_cast<std::uint64_t>(slot) + 1));
  return static_cast<std::uint32_t>(mixed >> 32);
}

void RowFormat::Seal(const void* row, std::int64_t key, std::int64_t slot, std::uint32_t generation,
                     std::uint8_t* at) const {
  std::memcpy(at, row, static_cast<std::size_t>(row_bytes_));
  RowTrailer trailer = {generation ^ OwnerMark(key, slot), 0};
  std::memcpy(at + row_bytes_, &trailer, sizeof(trailer));
  trailer.crc = SumOf(at);
  std::memcpy(at + row_bytes_, &trailer, sizeof(trailer));
}

Damage RowFormat::Examine(const std::uint8_t* at, std::int64_t key, std::int64_t slot, std::uint32_t generation) const {
  const RowTrailer trailer = TrailerOf(at);
  if (trailer.crc != SumOf(at)) return IsEmpty(at) ? kNeverWritten : kTorn;
  const std::uint32_t found = trailer.mark ^ OwnerMark(key, slot);
  if (found == generation) return kWhole;
  return std::min(found - generation, generation - found) < kNearGenerations ? kStale : kForeign;
}

bool RowFormat::IsSound(const std::uint8_t* at) const { return TrailerOf(at).crc == SumOf(at) || IsEmpty(at); }

RowTrailer RowFormat::TrailerOf(const std::uint8_t* at) const {
  RowTrailer trailer;
  std::memcpy(&trailer, at + row_bytes_, sizeof(trailer));
  return trailer;
}

std::uint32_t RowFormat::SumOf(const std::uint8_t* at) const {
  return Crc32c(at, static_cast<std::size_t>(row_bytes_) + sizeof(RowTrailer::mark));
}

bool RowFormat::IsEmpty(const std::uint8_t* at) const {
  return std::all_of(at, at + slot_bytes(), [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace ascpipe
