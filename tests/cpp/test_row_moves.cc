// Rows of a claimed plan: new keys get theirs, damaged records are refused.
#include "check.h"
#include "core/initial_rows.h"
#include "core/row_moves.h"
#include "segments.h"

using namespace ascpipe;

namespace {

std::atomic<int> alive{0};

// A ring with one frame of three keys, two of them new, as a table worker leaves it.
struct Fixture {
  Fixture() : ring({2, 1, 8192}) {
    Ticket* ticket = nullptr;
    ring.stream->Submit(std::unique_ptr<Batch>(new TestBatch(1, {40, 41, 42}, &alive)), &ticket);
    ring.stream->Pump();
    ticket->DropHold();
    part = ring.view.part(0, 0);
    part->unique_count = 3;
    part->fresh_count = 2;
    for (int i = 0; i < 3; ++i) {
      Array(part->slots)[i] = 2 - i;
      Array(part->restore)[i] = i;
      ring.view.array<std::int64_t>(0, part->unique)[i] = 40 + i;
    }
    Array(part->move_in)[0] = 0;
    Array(part->move_in)[1] = 2;
    initial.kind = InitialKind::kUniform;
    initial.b = 1.0;
    state = {{rows, 2, 0.0f}, {slot, 1, 0.5f}};
  }
  std::int32_t* Array(std::int64_t offset) { return ring.view.array<std::int32_t>(0, offset); }
  CoreStatus Move() { return MoveRows(ring.view, 0, 0, "user", initial, Array(part->slots), state); }

  TestRing ring;
  layout::Part* part;
  InitialRows initial;
  float rows[6] = {-1, -1, -1, -1, -1, -1};
  float slot[3] = {-1, -1, -1};
  std::vector<StateRows> state;
};

}  // namespace

TEST(NewKeysGetTheirRowAndTheirOptimizerSlot) {
  Fixture fixture;
  CHECK(fixture.Move().ok());
  float expected[2];
  fixture.initial.Fill(40, 2, expected);
  CHECK_EQ(fixture.rows[4], expected[0]);
  CHECK_EQ(fixture.rows[5], expected[1]);
  fixture.initial.Fill(42, 2, expected);
  CHECK_EQ(fixture.rows[0], expected[0]);
  CHECK_EQ(fixture.rows[2], -1.0f);
  CHECK_EQ(fixture.slot[0], 0.5f);
  CHECK_EQ(fixture.slot[1], -1.0f);
  CHECK_EQ(fixture.slot[2], 0.5f);
}

TEST(RowsFromAHostThatIsNotThereAreRefused) {
  Fixture fixture;
  fixture.part->load_count = 1;
  CHECK_EQ(static_cast<int>(fixture.Move().code()), static_cast<int>(Code::kInternal));
  fixture.part->load_count = 0;
  fixture.part->out_count = 1;
  CHECK_EQ(static_cast<int>(fixture.Move().code()), static_cast<int>(Code::kInternal));
}

TEST(ADamagedRecordIsRefused) {
  Fixture fixture;
  fixture.Array(fixture.part->move_in)[1] = 3;
  CHECK_EQ(static_cast<int>(fixture.Move().code()), static_cast<int>(Code::kDataLoss));
  fixture.part->fresh_count = 4;
  CHECK_EQ(static_cast<int>(fixture.Move().code()), static_cast<int>(Code::kInternal));
}

TEST(SlotsAndRestoreIndexesAreCopiedAndChecked) {
  Fixture fixture;
  std::int32_t slots[3], restore[3];
  std::int64_t bad = -1;
  const PlanOutputs outputs = {{slots, 2}, {{restore, 3}}};
  CHECK(CopyPlan(fixture.ring.view, 0, 0, 3, outputs, &bad));
  CHECK_EQ(slots[0], 2);
  CHECK_EQ(restore[2], 2);
  CHECK(!CopyPlan(fixture.ring.view, 0, 0, 2, outputs, &bad));
  CHECK_EQ(bad, 0);
}
