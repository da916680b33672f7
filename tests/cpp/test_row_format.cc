// Positions of rows in a row file, and detection of damage by trailers.
#include <cstring>
#include <vector>

#include "check.h"
#include "core/crc32c.h"
#include "disk/row_format.h"

using namespace ascpipe;

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes SomeBytes(std::size_t count) {
  Bytes bytes(count);
  std::uint32_t state = 1;
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return bytes;
}

constexpr std::int64_t kKey = -77, kSlot = 123456;
constexpr std::uint32_t kGeneration = 5;

Bytes Sealed(const RowFormat& format, const Bytes& row) {
  Bytes slot(static_cast<std::size_t>(format.slot_bytes()));
  format.Seal(row.data(), kKey, kSlot, kGeneration, slot.data());
  return slot;
}

}  // namespace

TEST(TheSumIsCrc32cByTablesAndByInstruction) {
  CHECK_EQ(Crc32c("123456789", 9), 0xE3069283u);
  CHECK_EQ(Crc32c("56789", 5, Crc32c("1234", 4)), 0xE3069283u);
  CHECK_EQ(Crc32c("", 0), 0u);
  const Bytes bytes = SomeBytes(300);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t count = 0; begin + count <= bytes.size(); ++count) {
      const std::uint32_t before = static_cast<std::uint32_t>(begin * 77);
      CHECK_EQ(Crc32c(bytes.data() + begin, count, before), Crc32cByTables(bytes.data() + begin, count, before));
    }
  }
}

TEST(BlocksHaveAsManySlotsAsFit) {
  struct Case {
    std::int64_t row_bytes, block_bytes, slots;
  };
  for (const Case& wanted :
       {Case{1, 4096, 455}, Case{4, 4096, 341}, Case{128, 4096, 30}, Case{512, 4096, 7}, Case{2040, 4096, 2},
        Case{2041, 4096, 1}, Case{4087, 4096, 1}, Case{4088, 4096, 1}, Case{4089, 8192, 1}, Case{8184, 8192, 1},
        Case{8185, 12288, 1}, Case{kMostRowBytes, kMostWriteBytes, 1}}) {
    const RowFormat format(wanted.row_bytes);
    CHECK_EQ(format.block_bytes(), wanted.block_bytes);
    CHECK_EQ(format.slots_per_block(), wanted.slots);
    CHECK(RowFormat::Fits(wanted.row_bytes));
    CHECK(format.blocks_per_write() >= 1);
    CHECK(format.blocks_per_write() * format.block_bytes() <= kMostWriteBytes);
  }
  CHECK(!RowFormat::Fits(0));
  CHECK(!RowFormat::Fits(-1));
  CHECK(!RowFormat::Fits(kMostRowBytes + 1));
}

TEST(SlotsOfABlockLieSideBySideAndNoneCrossesItsEnd) {
  for (std::int64_t row_bytes = 1; row_bytes < 9000; row_bytes += row_bytes < 100 ? 1 : 61) {
    const RowFormat format(row_bytes);
    std::int64_t block = 0, offset = 0;
    for (std::int64_t slot = 0; slot < 3 * format.slots_per_block(); ++slot) {
      CHECK_EQ(format.BlockOf(slot), block);
      CHECK_EQ(format.OffsetOf(slot), offset);
      CHECK(offset + format.slot_bytes() <= format.block_bytes());
      offset += format.slot_bytes();
      if (offset + format.slot_bytes() > format.block_bytes()) {
        ++block;
        offset = 0;
      }
    }
  }
}

TEST(ASealedRowIsWholeAndEveryOtherWishIsToldApart) {
  for (const std::size_t row_bytes : {1, 4, 128, 4088, 4089}) {
    const RowFormat format(static_cast<std::int64_t>(row_bytes));
    const Bytes row = SomeBytes(row_bytes), slot = Sealed(format, row);
    CHECK(std::memcmp(slot.data(), row.data(), row_bytes) == 0);
    CHECK(format.IsSound(slot.data()));
    const auto found = [&](std::int64_t key, std::int64_t number, std::uint32_t generation) {
      return static_cast<int>(format.Examine(slot.data(), key, number, generation));
    };
    CHECK_EQ(found(kKey, kSlot, kGeneration), kWhole);
    CHECK_EQ(found(kKey, kSlot, kGeneration + 1), kStale);
    CHECK_EQ(found(kKey, kSlot, kGeneration - 1), kStale);
    CHECK_EQ(found(kKey, kSlot, kGeneration - 6), kStale);  // the generation wraps around
    for (std::int64_t other = 1; other < 200; ++other) {
      CHECK_EQ(found(kKey + other, kSlot, kGeneration), kForeign);
      CHECK_EQ(found(kKey, kSlot + other, kGeneration), kForeign);
      CHECK_EQ(found(kKey, kSlot - other * format.slots_per_block(), kGeneration), kForeign);
    }
    CHECK_EQ(found(kSlot, kKey, kGeneration), kForeign);
  }
}

TEST(AnyChangedByteOfASlotIsATear) {
  for (const std::size_t row_bytes : {1, 128, 520}) {
    const RowFormat format(static_cast<std::int64_t>(row_bytes));
    const Bytes slot = Sealed(format, SomeBytes(row_bytes));
    for (std::size_t at = 0; at < slot.size(); ++at) {
      Bytes changed = slot;
      changed[at] ^= 0x40;
      CHECK_EQ(static_cast<int>(format.Examine(changed.data(), kKey, kSlot, kGeneration)), kTorn);
      CHECK(!format.IsSound(changed.data()));
    }
  }
}

TEST(RowsOfTwoWritesMixedAtAnyByteAreATear) {
  const RowFormat format(600);
  const Bytes before = Sealed(format, Bytes(600, 1)), after = Sealed(format, Bytes(600, 2));
  for (std::size_t at = 1; at < after.size(); ++at) {
    Bytes mixed(after.begin(), after.begin() + at);
    mixed.insert(mixed.end(), before.begin() + at, before.end());
    if (mixed == after || mixed == before) continue;  // the marks are equal
    CHECK_EQ(static_cast<int>(format.Examine(mixed.data(), kKey, kSlot, kGeneration)), kTorn);
  }
}

TEST(ZerosWereNeverWrittenAndARowOfZerosIsARow) {
  const RowFormat format(64);
  const Bytes zeros(static_cast<std::size_t>(format.slot_bytes()), 0);
  CHECK_EQ(static_cast<int>(format.Examine(zeros.data(), kKey, kSlot, kGeneration)), kNeverWritten);
  CHECK(format.IsSound(zeros.data()));
  const Bytes row = Sealed(format, Bytes(64, 0));
  CHECK_EQ(static_cast<int>(format.Examine(row.data(), kKey, kSlot, kGeneration)), kWhole);
}

TEST(EveryDamageHasAName) {
  for (const Damage damage : {kWhole, kNeverWritten, kTorn, kForeign, kStale}) {
    CHECK(std::strcmp(NameOf(damage), "unknown") != 0);
  }
}
