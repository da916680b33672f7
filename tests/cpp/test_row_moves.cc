// Row moves of a claimed plan: swap-outs, swap-ins and new rows.  Damaged records are rejected before any row moves.
#include <cstring>
#include <vector>

#include "check.h"
#include "core/initial_rows.h"
#include "core/row_moves.h"
#include "segments.h"

using namespace ascpipe;

namespace {

std::atomic<int> alive{0};

constexpr std::int64_t kSlots = 4;
constexpr std::int64_t kHomes = 6;
constexpr std::int64_t kDim = 2;

// A ring with one frame of four keys, as a table worker writes it.  Keys 0 and 2 are new (slots 2 and 0).  Key 3 is in
// home row 5 and moves to slot 3.  Key 1 is in slot 1.  The rows of slots 3 and 0 move to home rows 4 and 1.  A home
// row contains two floats of the embedding and one float of the optimizer slot.
struct Fixture {
  Fixture() : ring({2, 1, 8192}) {
    ring.stream->Park(std::unique_ptr<Batch>(new TestBatch(1, {40, 41, 42, 43}, &alive)), &ticket);
    ring.stream->Pump();
    part = ring.part(0, 0);
    part->unique_count = 4;
    part->fresh_count = 2;
    part->load_count = 1;
    part->out_count = 2;
    const std::int32_t slots_of[] = {2, 1, 0, 3}, homes_of[] = {0, 3, 2, 5};
    for (int i = 0; i < 4; ++i) {
      Array(part->slots)[i] = slots_of[i];
      Array(part->homes)[i] = homes_of[i];
      Array(part->restore)[i] = i;
      ring.array<std::int64_t>(0, part->unique)[i] = 40 + i;
    }
    Array(part->move_in)[0] = 0;
    Array(part->move_in)[1] = 2;
    Array(part->move_in)[2] = 3;
    Array(part->out_slots)[0] = 3;
    Array(part->out_slots)[1] = 0;
    Array(part->out_homes)[0] = 4;
    Array(part->out_homes)[1] = 1;
    initial.kind = layout::kInitialUniform;
    initial.b = 1.0;
    for (int i = 0; i < kSlots * kDim; ++i) rows[i] = 100.0f + i;
    for (int i = 0; i < kSlots; ++i) slot[i] = 200.0f + i;
    for (int i = 0; i < kHomes * 3; ++i) homes[i] = 300.0f + i;
    state = {{rows, kDim, kDim, 0.0f}, {slot, 1, 1, 0.5f}};
    table.name = &name;
    table.device_rows = kSlots;
    table.home.data = homes;
    table.home.row_floats = 3;
    table.home.ready = kHomes;
    table.initial = &initial;
    table.state = &state;
  }

  ~Fixture() { ticket->DropHold(); }

  PartView View() const { return PartView(ring.view, ticket->record(), 0); }
  std::int32_t* Array(std::int64_t offset) { return ring.array<std::int32_t>(0, offset); }
  CoreStatus Read(RowMoves* moves) { return moves->Read(View(), table, {Array(part->slots), 4}); }
  CoreStatus Move() {
    RowMoves moves;
    const CoreStatus status = Read(&moves);
    if (!status.ok()) return status;
    moves.Out(0, moves.outs());
    moves.In(0, moves.ins());
    return status;
  }

  // Changes the table to an expansion table.  Key 3 is not admitted, and key 1 already has a row.
  void MakeExpansion() {
    part->load_count = part->out_count = 0;
    Array(part->homes)[3] = -1;
    state = {{homes, kDim, 3, 0.0f}, {homes + kDim, 1, 3, 0.5f}};
    table.device_rows = kHomes;
    table.home = HomeRows();
  }
  CoreStatus MoveInPlace() {
    std::int32_t places[4];
    RowMoves moves;
    CHECK(CopyPlan(name, View(), {&layout::Part::homes, layout::kSlotNone, kHomes}, {{places, 4}, {}}).ok());
    const CoreStatus status = moves.Read(View(), table, {places, 4});
    if (status.ok()) moves.In(0, moves.ins());
    return status;
  }

  // Checks that the record is rejected with this text and that no row is changed.
  void CheckRefused(const char* text) {
    const std::vector<float> before(rows, rows + kSlots * kDim), home(homes, homes + kHomes * 3);
    const CoreStatus status = Move();
    CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kDataLoss));
    CHECK(status.text().find("E301: table 'user': the record of ticket 1 ") == 0);
    CHECK(status.text().find(text) != std::string::npos);
    CHECK_EQ(std::memcmp(before.data(), rows, sizeof(rows)), 0);
    CHECK_EQ(std::memcmp(home.data(), homes, sizeof(homes)), 0);
  }

  TestRing ring;
  Ticket* ticket = nullptr;
  layout::Part* part;
  const std::string name = "user";
  InitialRows initial;
  float rows[kSlots * kDim];
  float slot[kSlots];
  float homes[kHomes * 3];
  std::vector<StateRows> state;
  MovedTable table;
};

}  // namespace

TEST(RowsThatMakeRoomGoHomeWithTheirOptimizerSlots) {
  Fixture fixture;
  CHECK(fixture.Move().ok());
  const float expected[] = {106, 107, 203};  // row of slot 3, before another row was loaded there
  CHECK_EQ(std::memcmp(fixture.homes + 4 * 3, expected, sizeof(expected)), 0);
  const float other[] = {100, 101, 200};
  CHECK_EQ(std::memcmp(fixture.homes + 1 * 3, other, sizeof(other)), 0);
  CHECK_EQ(fixture.homes[0], 300.0f);
}

TEST(MissingRowsComeFromHomeWithTheirOptimizerSlots) {
  Fixture fixture;
  CHECK(fixture.Move().ok());
  CHECK_EQ(fixture.rows[6], 315.0f);
  CHECK_EQ(fixture.rows[7], 316.0f);
  CHECK_EQ(fixture.slot[3], 317.0f);
  CHECK_EQ(fixture.rows[2], 102.0f);  // slot 1 is unchanged
  CHECK_EQ(fixture.slot[1], 201.0f);
}

TEST(NewKeysGetTheirRowAndTheirOptimizerSlot) {
  Fixture fixture;
  CHECK(fixture.Move().ok());
  float expected[kDim];
  fixture.initial.Fill(40, kDim, expected);
  CHECK_EQ(fixture.rows[4], expected[0]);
  CHECK_EQ(fixture.rows[5], expected[1]);
  fixture.initial.Fill(42, kDim, expected);
  CHECK_EQ(fixture.rows[0], expected[0]);
  CHECK_EQ(fixture.slot[0], 0.5f);
  CHECK_EQ(fixture.slot[2], 0.5f);
}

TEST(MovesInAnyBlocksGiveTheSameRows) {
  Fixture whole, parts;
  CHECK(whole.Move().ok());
  RowMoves moves;
  CHECK(parts.Read(&moves).ok());
  for (std::int64_t i = moves.outs(); i-- > 0;) moves.Out(i, i + 1);
  for (std::int64_t i = moves.ins(); i-- > 0;) moves.In(i, i + 1);
  CHECK_EQ(std::memcmp(whole.rows, parts.rows, sizeof(whole.rows)), 0);
  CHECK_EQ(std::memcmp(whole.slot, parts.slot, sizeof(whole.slot)), 0);
  CHECK_EQ(std::memcmp(whole.homes, parts.homes, sizeof(whole.homes)), 0);
}

// Copies rows and optimizer slots of some width.  The home rows begin `shift` floats after a cache line.
void CheckCopiedWhole(std::int64_t width, std::int64_t shift) {
  Fixture fixture;
  const std::int64_t floats = 2 * width;
  std::vector<float> device(kSlots * width), other(kSlots * width), memory(kHomes * floats + 32, -1.0f);
  for (std::size_t i = 0; i < device.size(); ++i) {
    device[i] = static_cast<float>(i);
    other[i] = 1000.0f + static_cast<float>(i);
  }
  float* home = memory.data();
  while (reinterpret_cast<std::uintptr_t>(home) % layout::kCacheLine != 0) ++home;
  home += shift;
  fixture.state = {{device.data(), width, width, 0.0f}, {other.data(), width, width, 0.0f}};
  fixture.table.home.data = home;
  fixture.table.home.row_floats = floats;
  const std::vector<float> before = device, other_before = other;
  CHECK(fixture.Move().ok());
  const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(float);
  CHECK_EQ(std::memcmp(&home[4 * floats], &before[3 * width], bytes), 0);
  CHECK_EQ(std::memcmp(&home[4 * floats + width], &other_before[3 * width], bytes), 0);
  CHECK_EQ(std::memcmp(&home[1 * floats], &before[0], bytes), 0);
  CHECK_EQ(std::memcmp(&device[3 * width], &home[5 * floats], bytes), 0);
  CHECK_EQ(std::memcmp(&other[3 * width], &home[5 * floats + width], bytes), 0);
  CHECK_EQ(home[4 * floats - 1], -1.0f);
  CHECK_EQ(home[5 * floats], -1.0f);
}

TEST(RowsOfEveryWidthAreCopiedWhole) {
  for (const std::int64_t width : {1, 2, 3, 8, 15, 16, 32, 48, 64, 65}) {
    for (const std::int64_t shift : {0, 1, 4, 8}) CheckCopiedWhole(width, shift);
  }
}

TEST(WhereAFrameAndItsArraysLieIsNotReadFromTheRing) {
  Fixture whole, mad;
  layout::Part* const part = mad.part;
  std::int32_t slots[4];
  std::copy(mad.Array(part->slots), mad.Array(part->slots) + 4, slots);
  for (const layout::PartArray& array : layout::kPartArrays) part->*array.field = std::int64_t{1} << 60;
  part->specs = part->id_count = part->spec_count = -7;
  mad.ring.view.frame(0)->offset = std::int64_t{1} << 50;
  mad.ring.view.frame(0)->number = -3;
  *mad.ring.view.header() = layout::Ring();
  CHECK(whole.Move().ok());
  RowMoves moves;
  CHECK(moves.Read(mad.View(), mad.table, {slots, 4}).ok());
  moves.Out(0, moves.outs());
  moves.In(0, moves.ins());
  CHECK_EQ(std::memcmp(whole.rows, mad.rows, sizeof(mad.rows)), 0);
  CHECK_EQ(std::memcmp(whole.homes, mad.homes, sizeof(mad.homes)), 0);
  CHECK_EQ(mad.View().spec(0).shape[0], 4);
}

TEST(WhatIsMovedIsWhatWasExaminedWhateverBecomesOfTheFrame) {
  Fixture whole, mad;
  CHECK(whole.Move().ok());
  RowMoves moves;
  CHECK(mad.Read(&moves).ok());
  layout::Part* const part = mad.part;
  for (const std::int64_t array : {part->move_in, part->out_slots, part->out_homes, part->homes}) {
    std::fill_n(mad.Array(array), 4, std::int32_t{1} << 30);
  }
  part->fresh_count = part->load_count = part->out_count = std::int64_t{1} << 60;
  moves.Out(0, moves.outs());
  moves.In(0, moves.ins());
  CHECK_EQ(std::memcmp(whole.rows, mad.rows, sizeof(mad.rows)), 0);
  CHECK_EQ(std::memcmp(whole.homes, mad.homes, sizeof(mad.homes)), 0);
}

TEST(ATableOnTheDeviceAloneNeedsNoHomes) {
  Fixture fixture;
  fixture.table.home = HomeRows();
  fixture.part->load_count = 0;
  fixture.part->out_count = 0;
  for (int i = 0; i < 4; ++i) fixture.Array(fixture.part->homes)[i] = -1;
  CHECK(fixture.Move().ok());
  CHECK_EQ(fixture.slot[2], 0.5f);
}

TEST(RowsFromAHostThatIsNotThereAreRefused) {
  Fixture fixture;
  fixture.table.home = HomeRows();
  fixture.CheckRefused("moves 1 rows from and 2 rows to the host, but rows of this table stay where they are");
}

TEST(CountsThatCannotBeAreRefused) {
  for (std::int64_t layout::Part::*count :
       {&layout::Part::fresh_count, &layout::Part::load_count, &layout::Part::out_count}) {
    for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 62}) {
      Fixture fixture;
      fixture.part->*count = bad;
      fixture.CheckRefused("for 4 distinct ids");
    }
  }
}

TEST(MoreMovesThanKeysAreRefused) {
  Fixture fixture;
  fixture.part->load_count = 3;
  fixture.CheckRefused("moves 2 new rows and 3 rows from the host for 4 distinct ids");
}

TEST(AnIndexOutsideTheBatchIsRefused) {
  for (const std::int32_t bad : {-1, 4}) {
    for (int place = 0; place < 3; ++place) {
      Fixture fixture;
      fixture.Array(fixture.part->move_in)[place] = bad;
      fixture.CheckRefused("which has no slot");
    }
  }
}

TEST(ARowForAKeyWithoutASlotIsRefused) {
  Fixture fixture;
  fixture.Array(fixture.part->slots)[3] = -1;
  fixture.CheckRefused("gives a row to index 3 of 4, which has no slot or home row");
}

TEST(NewRowsOfAnExpansionTableBeginAtHome) {
  Fixture fixture;
  fixture.MakeExpansion();
  const std::vector<float> before(fixture.homes, fixture.homes + kHomes * 3);
  CHECK(fixture.MoveInPlace().ok());
  for (std::int64_t home = 0; home < kHomes; ++home) {
    float expected[3] = {before[home * 3], before[home * 3 + 1], before[home * 3 + 2]};
    if (home == 0 || home == 2) {
      fixture.initial.Fill(40 + home, kDim, expected);
      expected[2] = 0.5f;
    }
    CHECK_EQ(std::memcmp(fixture.homes + home * 3, expected, sizeof(expected)), 0);
  }
  CHECK_EQ(fixture.rows[0], 100.0f);
}

TEST(RowsOfAnExpansionTableDoNotMove) {
  Fixture fixture;
  fixture.MakeExpansion();
  fixture.part->load_count = 1;
  fixture.CheckRefused("moves 1 rows from and 0 rows to the host, but rows of this table stay where they are");
}

TEST(HomeRowsBecomeCodesAndThoseOfPaddingKeysStayApart) {
  const std::int64_t keys[] = {5, 6, 7, 8, 9};
  std::int32_t homes[] = {0, -1, 3, kMaxExpansionRows - 1, -1};
  EncodeHomes({homes, 5});
  FreezePadding(keys, {7, 8, 9}, {homes, 5});
  const std::int32_t expected[] = {-2, -1, layout::kSlotFrozen - 5, layout::kSlotFrozen - 1 - kMaxExpansionRows, -1};
  CHECK_EQ(std::memcmp(homes, expected, sizeof(homes)), 0);
}

TEST(AHomeRowWithoutMemoryIsRefused) {
  for (const std::int32_t bad : {-1, 6}) {
    Fixture load, fresh, out;
    load.Array(load.part->homes)[3] = bad;
    load.CheckRefused("gives a row to index 3 with home row");
    fresh.Array(fresh.part->homes)[0] = bad;
    fresh.CheckRefused("gives a row to index 0 with home row");
    out.Array(out.part->out_homes)[1] = bad;
    out.CheckRefused("moves slot 0 of 4 to home row");
  }
}

TEST(ASlotOutsideTheDeviceIsNotSentHome) {
  for (const std::int32_t bad : {-1, 4}) {
    Fixture fixture;
    fixture.Array(fixture.part->out_slots)[1] = bad;
    fixture.CheckRefused("of 4 to home row 1 of 6");
  }
}

TEST(SlotsAndRestoreIndexesAreCopiedAndChecked) {
  Fixture fixture;
  std::int32_t slots[4], restore[4];
  const PlanColumn column = {&layout::Part::slots, layout::kSlotNone, 3};
  CHECK(CopyPlan(fixture.name, fixture.View(), column, {{slots, 3}, {{restore, 3}}}).ok());
  CHECK_EQ(slots[0], 2);
  CHECK_EQ(restore[2], 2);
  const auto refusal = [&](const PlanColumn& of, const PlanOutputs& outputs) {
    return CopyPlan(fixture.name, fixture.View(), of, outputs).text();
  };
  CHECK(refusal({column.values, column.lowest, 2}, {{slots, 3}, {}})
            .find("gives key 0 of 3 the place 2, which is outside the table (-1 to 1)") != std::string::npos);
  CHECK(refusal(column, {{slots, 3}, {{restore, 1}, {restore, 3}}})
            .find("gives id 2 of 3 the restore index 3 of 3 distinct ids") != std::string::npos);
  fixture.Array(fixture.part->restore)[1] = -1;
  CHECK(refusal(column, {{slots, 3}, {{restore, 3}}}).find("gives id 1 of 3 the restore index -1") !=
        std::string::npos);
}

TEST(CodesOfHomeRowsAreAnAnswerOfEvaluationsAlone) {
  Fixture fixture;
  std::int32_t slots[4];
  const auto is_right = [&](std::int64_t lowest) {
    return CopyPlan(fixture.name, fixture.View(), {&layout::Part::slots, lowest, 4}, {{slots, 4}, {}}).ok();
  };
  fixture.Array(fixture.part->slots)[2] = layout::kSlotHome - 5;
  CHECK(!is_right(layout::kSlotNone));
  CHECK(is_right(LowestCode(6)));
  CHECK_EQ(slots[2], -7);
  CHECK(!is_right(LowestCode(5)));
  CHECK_EQ(LowestCode(0), layout::kSlotNone);
}

TEST(AllSlotsAndCodesOfRowsAreFrozen) {
  std::int32_t slots[] = {3, 0, -1, -5};
  FreezeAll({slots, 4});
  const std::int32_t expected[] = {3 + layout::kSlotFrozen, layout::kSlotFrozen, -1, layout::kSlotFrozen - 5};
  CHECK_EQ(std::memcmp(slots, expected, sizeof(slots)), 0);
}

TEST(SlotsOfPaddingKeysAreFrozen) {
  const std::int64_t keys[] = {0, -5, 7, 9, 3};
  std::int32_t slots[] = {3, 4, -1, 5, 0};
  FreezePadding(keys, {-5, 3, 7}, {slots, 5});
  const std::int32_t expected[] = {3, 4 + layout::kSlotFrozen, -1, 5, layout::kSlotFrozen};
  CHECK_EQ(std::memcmp(slots, expected, sizeof(slots)), 0);
  FreezePadding(keys, {}, {slots, 5});
  CHECK_EQ(slots[0], 3);
}
