// Home rows that are used in place.  Only valid handles access the rows, and repeated handles are written in order.
#include <cstring>
#include <vector>

#include "check.h"
#include "core/home_rows.h"
#include "core/ticket.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kFloats = 3;
constexpr std::int64_t kRows = 40;

// Table 2 in step 7.  Float i of its memory contains i.
struct Fixture {
  Fixture() : memory(kRows * kFloats) {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    table.number = 2;
    table.name = "user";
    table.step = 7;
    table.home.data = memory.data();
    table.home.row_floats = kFloats;
    table.home.ready = kRows;
  }

  std::int64_t Name(std::int64_t row) const { return Handle{2, 7, row}.bits(); }

  void CheckRefused(std::int64_t handle, Code code, const char* text) const {
    const std::int64_t handles[] = {0, Name(1), handle};
    const CoreStatus status = CheckHandles(handles, 3, table);
    CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(code));
    CHECK(status.text().find(Describe(handle, 2)) == 0);
    CHECK(status.text().find(text) != std::string::npos);
    CHECK(status.text().find("Nothing was read or written") != std::string::npos);
  }

  std::vector<float> memory;
  HandledTable table;
};

}  // namespace

TEST(AHandleNamesTableStepAndRow) {
  for (const Handle& handle : {Handle{0, 1, 0}, Handle{254, 65535, (std::int64_t{1} << 40) - 1}, Handle{126, 9, 5}}) {
    const Handle again = Handle::Of(handle.bits());
    CHECK(handle.bits() != 0);
    CHECK_EQ(again.table, handle.table);
    CHECK_EQ(again.step, handle.step);
    CHECK_EQ(again.row, handle.row);
  }
  CHECK_EQ((Handle{0, 5, 7}.bits()), std::int64_t{0x100050000000007});
  CHECK_EQ(Handle::Of(0).table, -1);
}

TEST(AHandleIsDescribedByIndexAndParts) {
  CHECK_EQ(Describe(0x100050000000007, 3), "handle 0x100050000000007 at index 3 (table 0, step 5, row 7)");
  CHECK_EQ(Describe(-1, 0), "handle 0xffffffffffffffff at index 0 (table 254, step 65535, row 1099511627775)");
}

TEST(StepsThatFollowEachOtherHaveDifferentMarksAndNoneIsZero) {
  CHECK_EQ(StepOf(TicketNumber(3, 0)), 1);
  CHECK_EQ(StepOf(TicketNumber(3, 65534)), 65535);
  CHECK_EQ(StepOf(TicketNumber(4, 65535)), 1);
}

TEST(KeysOfAPlanGetHandlesAndPlaces) {
  const Fixture fixture;
  const std::int32_t codes[] = {layout::kSlotHome - 4, layout::kSlotNone, layout::kSlotHome - 39 + layout::kSlotFrozen,
                                layout::kSlotHome};
  std::int64_t handles[4];
  std::int32_t places[4];
  CHECK_EQ(NameRows(codes, 4, fixture.table, handles, places), -1);
  const std::int64_t named[] = {fixture.Name(4), 0, fixture.Name(39), fixture.Name(0)};
  const std::int32_t placed[] = {0, -1, 2 + layout::kSlotFrozen, 3};
  CHECK_EQ(std::memcmp(handles, named, sizeof(named)), 0);
  CHECK_EQ(std::memcmp(places, placed, sizeof(placed)), 0);
}

TEST(CodesOfTheFirstAndTheLastPossibleRowAreToldFromThoseOfPaddingKeys) {
  for (const std::int32_t home : {0, 1, kMaxExpansionRows - 1}) {
    const std::int32_t code = layout::kSlotHome - home;
    CHECK(code < layout::kSlotNone);
    CHECK(code + layout::kSlotFrozen >= 0);
    CHECK_EQ(HomeOf(code), home);
    CHECK_EQ(HomeOf(code + layout::kSlotFrozen), home);
  }
  CHECK_EQ(HomeOf(layout::kSlotNone), -1);
}

TEST(ACodeOfARowWithoutMemoryGetsNoHandle) {
  const Fixture fixture;
  for (const std::int32_t bad : {layout::kSlotHome - 40, layout::kSlotHome - 40 + layout::kSlotFrozen, 0,
                                 layout::kSlotFrozen, std::int32_t{-2147483647 - 1}, std::int32_t{2147483647}}) {
    const std::int32_t codes[] = {layout::kSlotHome, bad};
    std::int64_t handles[2];
    std::int32_t places[2];
    CHECK_EQ(NameRows(codes, 2, fixture.table, handles, places), 1);
  }
}

TEST(HandlesOfTheStepAreGoodAndZeroAlways) {
  const Fixture fixture;
  const std::int64_t handles[] = {0, fixture.Name(0), fixture.Name(39), 0};
  CHECK(CheckHandles(handles, 4, fixture.table).ok());
  CHECK(CheckHandles(handles, 0, fixture.table).ok());
}

TEST(AHandleOfAnotherTableStepOrRowIsRefused) {
  const Fixture fixture;
  fixture.CheckRefused(Handle{1, 7, 0}.bits(), Code::kInvalidArgument, "of another table than 'user'");
  fixture.CheckRefused(5, Code::kInvalidArgument, "of another table than 'user'");
  fixture.CheckRefused(Handle{2, 6, 0}.bits(), Code::kFailedPrecondition, "valid in the step that made them");
  fixture.CheckRefused(Handle{2, 7, 40}.bits(), Code::kInvalidArgument, "table 'user' has 40 rows with memory");
}

TEST(NoHandleIsGoodWhileNoStepTrainsTheTable) {
  Fixture fixture;
  fixture.table.step = 0;
  const std::int64_t handles[] = {Handle{2, 0, 1}.bits()};
  CHECK_EQ(static_cast<int>(CheckHandles(handles, 1, fixture.table).code()),
           static_cast<int>(Code::kFailedPrecondition));
}

TEST(RowsAreReadFromTheirBeginningAndZerosWhereThereIsNone) {
  const Fixture fixture;
  std::vector<std::int64_t> handles = {fixture.Name(39), 0, fixture.Name(2)};
  for (int i = 0; i < 20; ++i) handles.push_back(fixture.Name(i));
  std::vector<float> out(handles.size() * 2, -1.0f);
  ReadRows(fixture.table.home, handles.data(), 0, handles.size(), 2, out.data());
  const float expected[] = {117, 118, 0, 0, 6, 7, 0, 1};
  CHECK_EQ(std::memcmp(out.data(), expected, sizeof(expected)), 0);
  CHECK_EQ(out.back(), 19 * 3 + 1.0f);
}

TEST(RepeatedRowsAreWrittenInOrderHoweverTheyAreDealtOut) {
  for (const bool add : {false, true}) {
    std::vector<float> expected;
    for (const std::int64_t parts : {1, 2, 5}) {
      Fixture fixture;
      std::vector<std::int64_t> handles;
      std::vector<float> rows;
      for (int i = 0; i < 300; ++i) {
        handles.push_back(i % 11 == 0 ? 0 : fixture.Name(i * 7 % kRows));
        for (int column = 0; column < 2; ++column) rows.push_back(1.0f / (i + 1) + 1e3f * (i % 5));
      }
      const RowWrites writes = {fixture.table.home, handles.data(), 300, 2, rows.data(), add};
      for (std::int64_t part = parts; part-- > 0;) writes.Write(part, parts);
      if (parts == 1) expected = fixture.memory;
      CHECK_EQ(std::memcmp(expected.data(), fixture.memory.data(), expected.size() * sizeof(float)), 0);
      for (std::int64_t row = 0; row < kRows; ++row) CHECK_EQ(fixture.memory[row * 3 + 2], row * 3 + 2.0f);
    }
    CHECK_EQ(expected[299 * 7 % kRows * 3] == 1.0f / 300 + 4e3f, !add);
  }
}
