// Tickets that are parked, framed, and closed at every moment.  Frames wrap around.
#include <thread>

#include "check.h"
#include "core/atomics.h"
#include "core/claim.h"
#include "core/pump.h"
#include "segments.h"

using namespace ascpipe;

namespace {

std::atomic<int> alive{0};  // number of batches whose ids are still kept

std::unique_ptr<Batch> BatchOf(const TestRing& ring, std::vector<std::int64_t> ids) {
  return std::unique_ptr<Batch>(new TestBatch(ring.view.tables(), std::move(ids), &alive));
}

// Parks a batch and rings the bell of the pump.
Ticket* Park(TestRing* ring, std::vector<std::int64_t> ids) {
  Ticket* ticket = nullptr;
  CHECK(ring->stream->Park(BatchOf(*ring, std::move(ids)), &ticket).ok());
  Ring(ring->session.bells + layout::kBellPump);
  return ticket;
}

Ticket* Submit(TestRing* ring, std::vector<std::int64_t> ids) {
  Ticket* ticket = nullptr;
  CHECK(ring->stream->Submit(BatchOf(*ring, std::move(ids)), &ticket).ok());
  return ticket;
}

void Retire(TestRing* ring, std::int64_t number) {
  for (int index = 0; index < ring->view.tables(); ++index) {
    Exchange(ring->view.word(index, number), static_cast<std::uint32_t>(layout::kRetired));
  }
}

}  // namespace

TEST(ABatchIsWrittenIntoItsFrame) {
  TestRing ring({2, 2, 8192});
  CHECK(ring.status.ok());
  Ticket* ticket = Park(&ring, {7, -1, 7});
  CHECK_EQ(RunOf(ticket->number()), 3);
  CHECK_EQ(ticket->state(), Ticket::kParked);
  CHECK(ring.stream->Pump());
  CHECK_EQ(ticket->state(), 0);
  CHECK_EQ(alive.load(), 0);
  const layout::Frame* frame = ring.view.frame(0);
  CHECK_EQ(frame->ticket, ticket->number());
  CHECK_EQ(frame->claim, 0u);
  for (int index = 0; index < 2; ++index) {
    const layout::Part* part = ring.part(0, index);
    CHECK_EQ(part->id_count, 3);
    CHECK_EQ(ring.array<std::int64_t>(0, part->ids)[1], -1);
    CHECK_EQ(ring.array<layout::Spec>(0, part->specs)->shape[0], 3);
    CHECK_EQ(*ring.view.word(index, 0), static_cast<std::uint32_t>(layout::kSubmitted));
  }
  CHECK_EQ(ring.view.header()->tail, 1);
  ticket->DropHold();
}

TEST(ATicketClosedWhileParkedGetsNoFrame) {
  TestRing ring({1, 1, 4096});
  Ticket* first = Park(&ring, {1});
  Ticket* second = Park(&ring, {2});
  Ticket* third = Park(&ring, {3});
  ring.stream->Pump();
  CHECK_EQ(second->state(), Ticket::kParked);
  CHECK_EQ(ring.view.header()->parked, 2);
  second->DropHold();
  ring.stream->Pump();
  CHECK_EQ(alive.load(), 1);
  CHECK_EQ(ring.view.header()->dropped, 1);
  first->DropHold();
  CHECK_EQ(ring.view.frame(0)->closed, 1u);
  ring.stream->Pump();
  CHECK_EQ(third->state(), Ticket::kParked);  // frame 0 is closed, but not retired
  Retire(&ring, 0);
  ring.stream->Pump();
  CHECK_EQ(third->state(), 1);
  CHECK_EQ(ring.view.frame(1)->ticket, third->number());
  third->DropHold();
}

TEST(AnOpenFrameIsNotGivenBackAlthoughItIsRetired) {
  TestRing ring({1, 1, 4096});
  Ticket* first = Park(&ring, {1});
  ring.stream->Pump();
  Retire(&ring, 0);
  CHECK(!ring.stream->Pump());
  first->DropHold();
  CHECK(ring.stream->Pump());
  CHECK_EQ(ring.view.header()->head, 1);
}

TEST(ClosingTwiceIsClosingOnce) {
  TestRing ring({2, 1, 4096});
  Ticket* ticket = Park(&ring, {1});
  ring.stream->Pump();
  ticket->Close();
  ring.view.frame(0)->closed = 0;  // a second effect would set it again
  ticket->Close();
  ticket->DropHold();
  CHECK_EQ(ring.view.frame(0)->closed, 0u);
}

TEST(AWorkerOfSeveralTablesIsRungOnceWhenATicketCloses) {
  TestRing ring({2, 2, 4096});
  Ticket* ticket = Park(&ring, {1});
  ring.stream->Pump();
  layout::Bell* bell = ring.session.TableWorkerBell(0);
  bell->waiting = layout::kAsleep;
  const std::uint32_t before = bell->futex;
  ticket->DropHold();
  CHECK_EQ(bell->futex, before + 1);
}

TEST(ATicketThatAllTablesHaveTrainedClosesWithoutARing) {
  TestRing ring({2, 2, 4096});
  layout::Bell* bell = ring.session.TableWorkerBell(0);
  for (const bool all : {false, true}) {
    Ticket* ticket = Park(&ring, {1});
    ring.stream->Pump();
    const std::int64_t number = ticket->state();
    StoreRelease(ring.view.word(0, number), static_cast<std::uint32_t>(layout::kDone));
    if (all) StoreRelease(ring.view.word(1, number), static_cast<std::uint32_t>(layout::kRetired));
    bell->waiting = layout::kAsleep;
    const std::uint32_t before = bell->futex;
    ticket->DropHold();
    CHECK_EQ(bell->futex, before + (all ? 0 : 1));  // the worker of the other table must drop the batch
  }
}

TEST(AHoldKeepsATicketOpenAndACopyOfItsNumberDoesNot) {
  TestRing ring({2, 1, 4096});
  Ticket* ticket = Park(&ring, {1});
  const std::int64_t number = ticket->number();
  ring.stream->Pump();
  {
    TicketHold hold;
    CHECK(ring.stream->Hold(number, &hold).ok());
    ticket->DropHold();
    CHECK_EQ(hold->state(), 0);
  }
  CHECK_EQ(ring.view.frame(0)->closed, 1u);
  TicketHold again;
  CHECK_EQ(static_cast<int>(ring.stream->Hold(number, &again).code()), static_cast<int>(Code::kFailedPrecondition));
  CHECK_EQ(static_cast<int>(ring.stream->Hold(TicketNumber(4, 1), &again).code()),
           static_cast<int>(Code::kFailedPrecondition));
}

TEST(ABatchThatCanNeverFitFailsAndTheNextGoesOn) {
  TestRing ring({2, 1, 4096});
  Ticket* large = Park(&ring, std::vector<std::int64_t>(1000, 1));
  Ticket* small = Park(&ring, {1});
  ring.stream->Pump();
  CHECK_EQ(large->state(), Ticket::kFailed);
  CHECK(large->why().find("bytes in the ring, which has 4096. Nothing was lost") != std::string::npos);
  CHECK_EQ(small->state(), 0);
  large->DropHold();
  small->DropHold();
}

TEST(FramesAndArenaWrapAroundManyTimes) {
  TestRing ring({3, 2, 16384});
  std::vector<Ticket*> open;
  std::int64_t next = 0;
  for (int round = 0; round < 500; ++round) {
    open.push_back(Submit(&ring, std::vector<std::int64_t>(1 + round % 37, round)));
    ring.stream->Pump();
    if (open.size() < 3) continue;
    CHECK_EQ(open.front()->state(), next);
    const layout::Part* part = ring.part(next, 1);
    CHECK_EQ(ring.array<std::int64_t>(next, part->ids)[part->id_count - 1], round - 2);
    open.front()->DropHold();
    open.erase(open.begin());
    Retire(&ring, next++);
  }
  CHECK_EQ(next, 498);
  for (Ticket* ticket : open) ticket->DropHold();
}

TEST(AFrameBeingFilledCannotBeClaimed) {
  TestRing ring({1, 1, 4096});
  ring.view.frame(0)->claim = 0;  // as after the death of a key worker
  Ticket* first = Park(&ring, {1});
  ring.stream->Pump();
  CHECK_EQ(ring.view.frame(0)->claim, 0u);
  Ticket* second = Park(&ring, {2});
  second->DropHold();  // closed before it gets a frame, so its position stays unclaimable
  ring.stream->Pump();
  CHECK_EQ(ring.view.header()->tail, 1);
  first->DropHold();
}

TEST(StoppingClosesEverythingAndOutlivingTicketsTouchNothing) {
  Ticket* framed;
  Ticket* parked;
  {
    TestRing ring({1, 1, 4096});
    framed = Park(&ring, {1});
    parked = Park(&ring, {2});
    ring.stream->Pump();
    ring.stream->Stop();
    CHECK_EQ(framed->state(), Ticket::kClosed);
    CHECK_EQ(ring.view.frame(0)->closed, 1u);
    Ticket* refused = nullptr;
    CHECK(!ring.stream->Submit(std::unique_ptr<Batch>(new TestBatch(1, {3}, &alive)), &refused).ok());
  }
  CHECK_EQ(alive.load(), 0);
  framed->DropHold();  // the ring is already unmapped
  parked->DropHold();
}

TEST(ManyThreadsMayCloseWhileThePumpFills) {
  TestRing ring({2, 1, 4096});
  Pump pump(ring.session, 5, {ring.stream.get()}, nullptr);
  pump.Start();
  std::thread worker([&ring] {  // retires all published frames
    std::int64_t done = 0;
    while (done < 2000 - LoadAcquire(&ring.view.header()->dropped)) {
      if (done < LoadAcquire(&ring.view.header()->tail)) {
        if (LoadAcquire(&ring.view.frame(done)->closed) == 0) continue;
        Retire(&ring, done++);
        Ring(ring.session.bells + layout::kBellPump);
      }
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    Ticket* ticket = Park(&ring, {i});
    if (i % 3 == 0) std::this_thread::yield();
    ticket->DropHold();
  }
  worker.join();
  pump.Stop();
  CHECK_EQ(ring.view.header()->submitted, 2000);
  CHECK_EQ(ring.view.header()->tail + ring.view.header()->dropped, 2000);
  CHECK_EQ(ring.session.bells[layout::kBellPump].late, 0u);
}

TEST(ABatchIsInItsFrameWhenSubmitReturnsIfThereIsRoom) {
  TestRing ring({2, 1, 4096});
  Ticket* ticket = Submit(&ring, {1, 2});
  CHECK_EQ(ticket->state(), 0);
  CHECK_EQ(alive.load(), 0);
  CHECK_EQ(ring.view.header()->tail, 1);
  CHECK_EQ(ring.view.header()->parked, 0);
  ticket->DropHold();
}

TEST(ABatchWithoutRoomIsThePumpsWhichWaitsForRoomFromThenOn) {
  TestRing ring({1, 1, 4096});
  Pump pump(ring.session, 0, {ring.stream.get()}, nullptr);
  pump.Start();
  const layout::Bell* const bell = ring.session.bells + layout::kBellPump;
  Ticket* first = Submit(&ring, {1});
  while (LoadAcquire(&bell->waiting) != layout::kPausing) std::this_thread::yield();
  Ticket* second = Submit(&ring, {2});
  CHECK_EQ(second->state(), Ticket::kParked);
  while (LoadAcquire(&bell->waiting) != layout::kAsleep) std::this_thread::yield();
  first->DropHold();
  Retire(&ring, 0);
  RingUnlessPausing(ring.session.bells + layout::kBellPump);
  while (second->state() != 1) std::this_thread::yield();
  pump.Stop();
  second->DropHold();
  CHECK_EQ(bell->late, 0u);
}

TEST(ManyThreadsMaySubmitWhileThePumpRunsAndTheRingIsUsedUpByOthers) {
  TestRing ring({4, 1, 16384});
  Pump pump(ring.session, 5, {ring.stream.get()}, nullptr);
  pump.Start();
  constexpr int kThreads = 4, kEach = 500;
  std::atomic<bool> over{false};
  std::thread worker([&ring, &over] {
    for (std::int64_t done = 0; !over.load(); std::this_thread::yield()) {
      if (done >= LoadAcquire(&ring.view.header()->tail)) continue;
      if (LoadAcquire(&ring.view.frame(done)->closed) == 0) continue;
      Retire(&ring, done++);
      RingUnlessPausing(ring.session.bells + layout::kBellPump);
    }
  });
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&ring] {
      for (int i = 0; i < kEach; ++i) Submit(&ring, {i, i + 1})->DropHold();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const layout::Ring* const header = ring.view.header();
  while (LoadAcquire(&header->tail) + LoadAcquire(&header->dropped) < kThreads * kEach) std::this_thread::yield();
  over.store(true);
  worker.join();
  pump.Stop();
  CHECK_EQ(header->submitted, kThreads * kEach);
  CHECK_EQ(header->parked, 0);
  CHECK_EQ(alive.load(), 0);
  CHECK_EQ(ring.session.bells[layout::kBellPump].late, 0u);
}

TEST(ASubmitBesideAStopEitherEndsBeforeItOrIsRefused) {
  for (int round = 0; round < 200; ++round) {
    TestRing ring({64, 1, 1 << 16});
    std::thread thread([&ring] {
      for (int i = 0; i < 20; ++i) {
        Ticket* ticket = nullptr;
        if (!ring.stream->Submit(BatchOf(ring, {i}), &ticket).ok()) return;
        ticket->DropHold();
      }
    });
    if (round % 2 == 0) std::this_thread::yield();
    ring.stream->Stop();
    const std::int64_t tail = ring.view.header()->tail;
    thread.join();
    CHECK_EQ(ring.view.header()->tail,
             tail);  // nothing is written after Stop has returned, because the ring may be unmapped
  }
  CHECK_EQ(alive.load(), 0);
}

TEST(AStreamThatIsAddedWhileThePumpRunsGetsItsBatchesIntoFrames) {
  TestRing ring({2, 1, 4096});
  Pump pump(ring.session, 5, {}, nullptr);
  pump.Start();
  Ticket* ticket = Park(&ring, {1});  // the batch waits until the pump has the stream
  pump.Add(ring.stream.get());
  while (LoadAcquire(&ring.view.header()->tail) == 0) std::this_thread::yield();
  pump.Stop();
  CHECK_EQ(ring.view.header()->parked, 0);
  CHECK_EQ(ring.session.bells[layout::kBellPump].late, 0u);
  ticket->DropHold();
}

TEST(TheTruthIsReadableWhenNothingIsOnItsWay) {
  TestRing ring({4, 1, 8192});
  Ticket* ticket = Park(&ring, {1});
  ring.stream->Pump();
  CHECK(ReadersMayRead(ring.view, 0));  // open and not claimed: the reader's own step may use it
  *ring.view.word(0, 0) = layout::kClaimed;
  CHECK(!ReadersMayRead(ring.view, 0));
  *ring.view.word(0, 0) = layout::kDone;
  CHECK(!ReadersMayRead(ring.view, 0));
  *ring.view.word(0, 0) = layout::kTouched;
  ring.view.frame(0)->trained = 1;
  CHECK(ReadersMayRead(ring.view, 0));
  ticket->DropHold();
  CHECK(!ReadersMayRead(ring.view, 0));  // closed and trained, but not counted yet
  *ring.view.word(0, 0) = layout::kRetired;
  CHECK(ReadersMayRead(ring.view, 0));
}
