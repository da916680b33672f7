// Cycles of gradient accumulation: the last batch of a cycle has the ids of the others behind its own.
#include "check.h"
#include "core/cycle_ids.h"
#include "segments.h"

using namespace ascpipe;

namespace {

std::atomic<int> alive{0};  // batches whose ids are still kept

// Submits a batch, and returns its frame's ids and weights of a table; those of the features come first.
struct Framed {
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> weights;
  std::int64_t features;  // in the frame
  bool ends;
};

Framed Submitted(TestRing* ring, std::vector<std::int64_t> ids, int table) {
  Ticket* ticket = nullptr;
  std::unique_ptr<Batch> batch(new TestBatch(ring->view.tables(), std::move(ids), &alive));
  CHECK(ring->stream->Submit(std::move(batch), &ticket).ok());
  const std::int64_t number = ticket->state();
  const layout::Part* const part = ring->part(number, table);
  Framed found;
  const std::int64_t* const first = ring->array<std::int64_t>(number, part->ids);
  found.ids.assign(first, first + part->id_count);
  if (part->weights != 0) {
    const std::int32_t* const weights = ring->array<std::int32_t>(number, part->weights);
    found.weights.assign(weights, weights + part->id_count);
  }
  found.features = part->spec_count;
  CHECK_EQ(ring->array<layout::Spec>(number, part->specs)->shape[0], ring->array<layout::Spec>(number, part->specs)->count);
  const std::vector<bool>& ends = ticket->record().ends_cycle;
  found.ends = static_cast<std::size_t>(table) < ends.size() && ends[static_cast<std::size_t>(table)];
  ticket->DropHold();
  return found;
}

using Ids = std::vector<std::int64_t>;
using Weights = std::vector<std::int32_t>;

}  // namespace

TEST(TheLastBatchOfACycleHasTheIdsOfTheOthersWhichDoNotCount) {
  TestRing ring({16, 2, 1 << 16});
  ring.stream->Accumulate(1, 3);
  CHECK(Submitted(&ring, {7, -1, 7}, 1).ids == Ids({7, -1, 7}));
  const Framed second = Submitted(&ring, {9}, 1);
  CHECK(second.ids == Ids({9}) && second.weights.empty() && !second.ends);
  const Framed last = Submitted(&ring, {5, 9}, 1);
  CHECK(last.ids == Ids({5, 9, -1, 7, 9}));
  CHECK(last.weights == Weights({1, 1, 0, 0, 0}));
  CHECK_EQ(last.features, 1);
  CHECK(last.ends);
  // The next cycle begins with nothing.
  Submitted(&ring, {1}, 1);
  Submitted(&ring, {2}, 1);
  CHECK(Submitted(&ring, {3}, 1).ids == Ids({3, 1, 2}));
  CHECK_EQ(alive.load(), 0);
}

TEST(OtherTablesAreLeftAsTheyAre) {
  TestRing ring({16, 2, 1 << 16});
  ring.stream->Accumulate(1, 2);
  Submitted(&ring, {1, 2}, 0);
  const Framed last = Submitted(&ring, {3}, 0);
  CHECK(last.ids == Ids({3}) && last.weights.empty() && !last.ends);
}

TEST(ACycleWithoutOtherIdsStillEnds) {
  TestRing ring({16, 1, 1 << 16});
  ring.stream->Accumulate(0, 2);
  Submitted(&ring, {}, 0);
  const Framed last = Submitted(&ring, {3}, 0);
  CHECK(last.ids == Ids({3}) && last.ends);
}

TEST(ARestoredCycleIsContinued) {
  TestRing ring({16, 1, 1 << 16});
  ring.stream->Accumulate(0, 3);
  ring.stream->BeganAfter(4);
  ring.stream->BeganWith(0, {8, 6});
  CHECK(!Submitted(&ring, {1}, 0).ends);
  const Framed last = Submitted(&ring, {2}, 0);
  CHECK(last.ends && last.ids == Ids({2, 1, 6, 8}));
}

TEST(OtherStepsBeginACycleAnew) {
  TestRing ring({16, 1, 1 << 16});
  ring.stream->Accumulate(0, 4);
  Submitted(&ring, {1}, 0);
  ring.stream->Accumulate(0, 1);
  CHECK(!Submitted(&ring, {2}, 0).ends);
  ring.stream->Accumulate(0, 2);
  Submitted(&ring, {3}, 0);
  const Framed last = Submitted(&ring, {4}, 0);
  CHECK(last.ends && last.ids == Ids({4, 3}));
}
