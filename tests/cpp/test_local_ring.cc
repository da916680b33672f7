// Local rings and weights: the frame of a batch with weights, the release of frames, and the bells that are rung.
#include "check.h"
#include "core/atomics.h"
#include "segments.h"

using namespace ascpipe;

namespace {

std::atomic<int> alive{0};

std::unique_ptr<Batch> BatchOf(const TestRing& ring, std::vector<std::int64_t> ids) {
  return std::unique_ptr<Batch>(new TestBatch(ring.view.tables(), std::move(ids), &alive));
}

Ticket* Submit(TestRing* ring, std::unique_ptr<Batch> batch) {
  Ticket* ticket = nullptr;
  CHECK(ring->stream->Submit(std::move(batch), &ticket).ok());
  return ticket;
}

RingPlan Local(int frames, int tables) {
  RingPlan plan{frames, tables, 1 << 16};
  plan.channel = layout::kLocal;
  return plan;
}

void Store(TestRing* ring, std::int64_t number, int table, layout::Word word) {
  Exchange(ring->view.word(table, number), static_cast<std::uint32_t>(word));
}

layout::Bell* Asleep(TestRing* ring, int bell, std::uint32_t how = layout::kAsleep) {
  ring->session.bells[bell].waiting = how;
  return ring->session.bells + bell;
}

}  // namespace

TEST(WeightsLieWhereCountsWillAndABatchWithoutHasNone) {
  TestRing ring({2, 2, 1 << 16});
  const std::vector<std::int32_t> weights{3, 0, 2147483647};
  std::unique_ptr<Batch> batch = BatchOf(ring, {7, -1, 9});
  batch->features[1].weights = weights.data();
  Ticket* first = Submit(&ring, std::move(batch));
  Ticket* second = Submit(&ring, BatchOf(ring, {7}));
  CHECK_EQ(ring.part(0, 0)->weights, 0);
  const layout::Part* part = ring.part(0, 1);
  CHECK_EQ(part->weights, part->counts);
  for (int i = 0; i < 3; ++i) CHECK_EQ(ring.array<std::int32_t>(0, part->weights)[i], weights[i]);
  CHECK_EQ(ring.part(1, 1)->weights, 0);
  first->DropHold();
  second->DropHold();
}

TEST(IdsOfAFeatureWithoutWeightsCountOnceBesideOneWithWeights) {
  TestRing ring({1, 1, 1 << 16});
  const std::vector<std::int32_t> weights{5, 6};
  std::unique_ptr<Batch> batch = BatchOf(ring, {1, 2});
  FeatureIds with = batch->features[0], empty = batch->features[0];
  with.weights = weights.data();
  empty.count = 0;
  empty.weights = weights.data();
  batch->features.push_back(with);
  batch->features.push_back(empty);
  batch->features.push_back(batch->features[0]);
  Ticket* ticket = Submit(&ring, std::move(batch));
  const layout::Part* part = ring.part(0, 0);
  CHECK_EQ(part->id_count, 6);
  const std::int32_t wanted[] = {1, 1, 5, 6, 1, 1};
  for (int i = 0; i < 6; ++i) CHECK_EQ(ring.array<std::int32_t>(0, part->weights)[i], wanted[i]);
  ticket->DropHold();
}

TEST(AFrameOfALocalRingComesBackWhenItIsClosedAndDeduplicatedForEveryTable) {
  TestRing ring(Local(1, 2));
  CHECK(ring.status.ok());
  CHECK(ring.stream->local());
  CHECK(!ring.stream->training());
  Ticket* first = Submit(&ring, BatchOf(ring, {1, 2}));
  Ticket* second = Submit(&ring, BatchOf(ring, {3}));
  CHECK_EQ(second->state(), Ticket::kParked);
  first->DropHold();
  ring.stream->Pump();
  CHECK_EQ(second->state(), Ticket::kParked);  // a key worker may still write the frame
  Store(&ring, 0, 0, layout::kDeduped);
  ring.stream->Pump();
  CHECK_EQ(second->state(), Ticket::kParked);
  Store(&ring, 0, 1, layout::kDeduped);
  CHECK(ring.stream->Pump());
  CHECK_EQ(second->state(), 1);
  CHECK_EQ(ring.view.header()->head, 1);
  Store(&ring, 1, 0, layout::kDeduped);
  Store(&ring, 1, 1, layout::kDeduped);
  CHECK(!ring.stream->Pump());  // the ticket is open, because the step needs the restore index
  second->DropHold();
  CHECK(ring.stream->Pump());
  CHECK_EQ(ring.view.header()->head, 2);
}

TEST(AFrameOfATrainingRingThatIsOnlyDeduplicatedDoesNotComeBack) {
  TestRing ring({1, 1, 1 << 16});
  Ticket* ticket = Submit(&ring, BatchOf(ring, {1}));
  Store(&ring, 0, 0, layout::kDeduped);
  ticket->DropHold();
  ring.stream->Pump();
  CHECK_EQ(ring.view.header()->head, 0);
}

TEST(TheCloseOfALocalTicketRingsThePumpAndNoTableWorker) {
  TestRing ring(Local(2, 2));
  Ticket* ticket = Submit(&ring, BatchOf(ring, {1}));
  layout::Bell* const table = Asleep(&ring, layout::kBellTableWorkers);
  layout::Bell* const pump = Asleep(&ring, layout::kBellPump);
  const std::uint32_t table_before = table->futex, pump_before = pump->futex;
  ticket->DropHold();
  CHECK_EQ(table->futex, table_before);
  CHECK_EQ(pump->futex, pump_before + 1);
}

TEST(AKeyWorkerThatPausesIsRungForALocalBatchOnlyWhileFewAreBeforeIt) {
  RingPlan plan = Local(8, 1);
  plan.look_ahead = 2;
  TestRing ring(plan);
  layout::Bell* const bell = Asleep(&ring, layout::kBellKeyWorkers, layout::kPausing);
  std::vector<Ticket*> tickets;
  for (const std::uint32_t rings : {1u, 2u, 2u, 2u}) {
    tickets.push_back(Submit(&ring, BatchOf(ring, {1})));
    CHECK_EQ(bell->futex, rings);
  }
  for (int number = 0; number < 2; ++number) {
    Store(&ring, number, 0, layout::kDeduped);
    tickets[number]->DropHold();
  }
  ring.stream->Pump();
  tickets.push_back(Submit(&ring, BatchOf(ring, {1})));  // the third frame in use
  CHECK_EQ(bell->futex, 2u);
  Asleep(&ring, layout::kBellKeyWorkers);
  tickets.push_back(Submit(&ring, BatchOf(ring, {1})));
  CHECK_EQ(bell->futex, 3u);
  for (std::size_t number = 2; number < tickets.size(); ++number) tickets[number]->DropHold();
}
