// Cycles of gradient accumulation.  The last batch of a cycle contains its own ids and then the ids of the other
// batches.
#include <deque>

#include "check.h"
#include "core/cycle_ids.h"
#include "segments.h"

using namespace ascpipe;

namespace {

std::atomic<int> alive{0};  // number of batches whose ids are still kept

// Ids and weights of one table in the frame of a batch.  The ids of features come first.
struct Framed {
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> weights;
  std::int64_t features;  // number of features in the frame
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
  CHECK_EQ(ring->array<layout::Spec>(number, part->specs)->shape[0],
           ring->array<layout::Spec>(number, part->specs)->count);
  found.ends = ticket->record().cycle.Ends(table);
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
  // The next cycle begins without ids.
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

TEST(OtherStepsContinueACycle) {
  TestRing ring({16, 1, 1 << 16});
  ring.stream->Accumulate(0, 4);
  Submitted(&ring, {1}, 0);
  ring.stream->Accumulate(0, 2);
  const Framed last = Submitted(&ring, {2}, 0);
  CHECK(last.ends && last.ids == Ids({2, 1}));
}

TEST(WithoutCyclesNothingIsKept) {
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

// Batches of iterators that a program submits and uses.
class Iterators {
 public:
  explicit Iterators(std::int64_t steps) : ring({64, 1, 1 << 16}) { ring.stream->Accumulate(0, steps); }
  ~Iterators() { DropAll(); }

  // Submits a batch and returns the ids in its frame.  The ticket stays open.
  Ids Submit(std::int64_t source, Ids ids) {
    Ticket* ticket = nullptr;
    std::unique_ptr<Batch> batch(new TestBatch(1, std::move(ids), &alive));
    batch->source = source;
    CHECK(ring.stream->Submit(std::move(batch), &ticket).ok());
    open_.push_back(ticket);
    const layout::Part* const part = ring.part(ticket->state(), 0);
    const std::int64_t* const first = ring.array<std::int64_t>(ticket->state(), part->ids);
    return Ids(first, first + part->id_count);
  }
  // A step uses the first open batch (Use), or the batch is dropped without a step (LetGo).
  void Use() {
    TicketHold hold;
    CHECK(ring.stream->Hold(open_.front()->number(), &hold).ok());
    hold = TicketHold();
    LetGo();
  }
  void LetGo() {
    open_.front()->DropHold();
    open_.pop_front();
    ring.stream->Pump();
  }
  void DropAll() {
    while (!open_.empty()) LetGo();
  }

  // Checks a batch in cycles of three batches.
  bool IsOfBefore(std::int64_t sequence) const { return ring.stream->IsOfBefore(TicketNumber(3, sequence), 3); }

  TestRing ring;

 private:
  std::deque<Ticket*> open_;
};

TEST(BatchesThatAreDroppedWithTheirIteratorAreNotCounted) {
  Iterators all(3);
  for (std::int64_t id = 1; id <= 8; ++id) all.Submit(1, {id});
  all.Use();
  all.DropAll();
  all.Submit(2, {11});
  CHECK(all.Submit(2, {12}) == Ids({12, 1, 11}));
  all.Use();
  all.Use();
  all.DropAll();
  all.Submit(3, {21});
  all.Submit(3, {22});
  CHECK(all.Submit(3, {23}) == Ids({23, 21, 22}));
}

TEST(ADroppedEndOfACycleGivesItsIdsBack) {
  Iterators all(3);
  all.ring.stream->BeganAfter(1);
  all.ring.stream->BeganWith(0, {40, 30});
  all.Submit(1, {1});
  CHECK(all.Submit(1, {2}) == Ids({2, 1, 30, 40}));
  all.Use();
  all.DropAll();
  CHECK(all.Submit(2, {3}) == Ids({3, 1, 30, 40}));
  all.Use();
  all.Submit(2, {4});
  all.Submit(2, {5});
  CHECK(all.Submit(2, {6}) == Ids({6, 4, 5}));
}

TEST(ABatchThatIsNotUsedStaysCountedWhereALaterOneIsUsed) {
  Iterators all(3);
  all.Submit(1, {1});
  all.Submit(1, {2});
  all.LetGo();
  all.Use();
  CHECK(all.Submit(2, {3}) == Ids({3, 1, 2}));
}

TEST(AnOpenBatchOfAnotherIteratorStaysCounted) {
  Iterators all(3);
  all.Submit(1, {1});
  all.Submit(2, {2});
  CHECK(all.Submit(1, {3}) == Ids({3, 1, 2}));
}

TEST(BatchesThatAreOpenWhenACheckpointIsRestoredAreCountedBehindIt) {
  Iterators all(3);
  all.Submit(1, {1});
  all.Use();
  all.Submit(1, {2});
  all.ring.stream->BeganWith(0, {});
  all.ring.stream->BeganAfter(7);
  CHECK(all.Submit(1, {3}) == Ids({3, 2}));
  CHECK(!all.IsOfBefore(2) && !all.IsOfBefore(3));
}

TEST(ABatchThatIsOpenWhenACheckpointIsRestoredSaysIfItsCycleWouldBeAnother) {
  Iterators all(3);
  all.Submit(1, {1});
  all.Submit(1, {2});
  all.Use();
  all.ring.stream->BeganAfter(5);
  CHECK(all.IsOfBefore(2));
  all.Submit(1, {3});
  CHECK(!all.IsOfBefore(3));
  all.ring.stream->BeganWith(0, {30});  // batches 2 and 3 might have got these ids
  CHECK(all.IsOfBefore(3));
  CHECK(!all.ring.stream->IsOfBefore(TicketNumber(3, 3), 4));
}

TEST(TrainedBatchesAreCountedFromACheckpointOn) {
  TestRing ring({16, 1, 1 << 16});
  ring.view.header()->trained = 5;
  CHECK_EQ(ring.stream->TrainedBatches(), 5);
  ring.stream->BeganAfter(100);
  ring.view.header()->trained = 7;
  CHECK_EQ(ring.stream->TrainedBatches(), 102);
}

// Without this, a program that reads batches but does not train would use more and more memory.
TEST(IdsOfCyclesThatNobodyUsesAreLetGo) {
  CycleIds cycles;
  cycles.SetSteps(0, 2);
  std::atomic<int> batches{0};
  for (std::int64_t sequence = 1; sequence <= 1001; ++sequence) {
    TestBatch batch(1, {sequence}, &batches);
    cycles.Pass(sequence, sequence, &batch);
  }
  CHECK(cycles.kept(0) <= 4);
  cycles.Drop(0);
  TestBatch batch(1, {5}, &batches);
  CHECK_EQ(cycles.Pass(1002, 1002, &batch).number, 1);
}

TEST(BatchesOfALongCycleThatWereUsedAreKeptAsOne) {
  CycleIds cycles;
  cycles.SetSteps(0, 102);
  std::atomic<int> batches{0};
  for (std::int64_t sequence = 1; sequence <= 101; ++sequence) {
    TestBatch batch(1, {sequence % 10, 7}, &batches);
    cycles.Pass(sequence, sequence, &batch);
    if (sequence <= 99) cycles.Use(sequence);
  }
  CHECK(cycles.kept(0) <= 12);
  cycles.Drop(0);  // two batches were not used
  TestBatch batches_left[] = {{1, {20}, &batches}, {1, {21}, &batches}};
  cycles.Pass(102, 102, &batches_left[0]);
  cycles.Pass(103, 103, &batches_left[1]);
  TestBatch last(1, {30}, &batches);
  CHECK(cycles.Pass(104, 104, &last).Ends(0));
  const FeatureIds& appended = last.features.back();
  CHECK_EQ(appended.count, 12);
  CHECK_EQ(static_cast<const std::int64_t*>(appended.data)[0], 0);
  CHECK_EQ(static_cast<const std::int64_t*>(appended.data)[11], 21);
}
