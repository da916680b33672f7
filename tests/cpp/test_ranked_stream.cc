// Keys of batches that each rank sends to their owners, over rings in memory.
#include "ranked_rings.h"

using namespace ranked_rings;

TEST(BatchesOfARunAreNamedOneAfterTheOther) {
  Ranks ranks(1);
  Rank& rank = ranks[0];
  Ticket* first = rank.Submit({1});
  Ticket* second = rank.Submit({2});
  CHECK(rank.NameOf(first) == (BatchName{1, 1}));
  CHECK(rank.NameOf(second) == (BatchName{1, 2}));
  CHECK(rank.stream->NameOfNext() == (BatchName{1, 3}));
  rank.run = rank.stream->NewRun();
  CHECK(rank.stream->NameOfNext() == (BatchName{2, 1}));
  Ticket* third = rank.Submit({3});
  CHECK(rank.NameOf(third) == (BatchName{2, 1}));
  BatchName name;
  CHECK(!rank.stream->NameOf(third->number() + 1, &name));
  for (Ticket* ticket : {first, second, third}) ticket->DropHold();
}

TEST(KeysAndTheirCountsComeToTheirOwnersInRankOrder) {
  for (const int count : {1, 2, 3}) {
    Ranks ranks(count);
    std::vector<Ticket*> tickets;
    for (int rank = 0; rank < count; ++rank) {
      tickets.push_back(ranks[rank].SubmitDeduplicated({0, 1, 2, 3, 4, 5, 5, 5, 10 + rank}, 100 + rank));
      CHECK(!ranks[rank].IsKnown(tickets.back()));
    }
    CHECK(ranks.ExchangeKeys().ok());
    for (int rank = 0; rank < count; ++rank) {
      CHECK(ranks[rank].IsKnown(tickets[static_cast<std::size_t>(rank)]));
      TicketHold owned;
      const auto batch = Take(&ranks[rank], tickets[static_cast<std::size_t>(rank)], &owned);
      CHECK_EQ(batch->local, tickets[static_cast<std::size_t>(rank)]->number());
      CHECK_EQ(batch->owned, owned->number());
      CHECK(ranks[rank].stream->Taken(batch->owned) == batch);
      const std::int64_t frame = owned->state();
      CHECK_EQ(ranks[rank].owned.view.frame(frame)->timestamp, 100 + count - 1);
      for (int table = 0; table < kTables; ++table) {
        const std::int64_t sign = table == 0 ? 1 : -1;
        Keys wanted, weights;
        std::vector<std::int64_t> askers(1, 0);
        for (int from = 0; from < count; ++from) {
          std::map<std::int64_t, std::int64_t> its;
          for (const std::int64_t id : {0, 1, 2, 3, 4, 5, 5, 5, 10 + from}) {
            if (id % count == rank) ++its[sign * id];
          }
          for (const auto& one : its) wanted.push_back(one.first);
          for (const auto& one : its) weights.push_back(one.second);
          askers.push_back(static_cast<std::int64_t>(wanted.size()));
        }
        CHECK(ranks[rank].OwnedKeys(frame, table) == wanted);
        CHECK(ranks[rank].OwnedWeights(frame, table) == weights);
        CHECK(batch->shares[static_cast<std::size_t>(table)].askers == askers);
        CHECK_EQ(batch->shares[static_cast<std::size_t>(table)].owners.back(), 7);
        CHECK_EQ(batch->shares[static_cast<std::size_t>(table)].owners.size(), static_cast<std::size_t>(count + 1));
      }
    }
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(KeysOfAStreamThatOneRankAddsLaterWaitForIt) {
  Ranks early(2), late(2);  // rank 0 of `early` sends keys to rank 1 of `late`, which adds its stream later
  RankedStreams empty;
  Ticket* first = early[0].SubmitDeduplicated({1, 3, 5});
  Ticket* second = early[0].SubmitDeduplicated({7});
  std::vector<Bytes> said = early[0].Say();
  Received received;
  received.from = {{said[1].data(), static_cast<std::int64_t>(said[1].size())}, {nullptr, 0}};
  CHECK(empty.Unpack(received).ok());

  Rank& rank = late[1];
  std::unique_ptr<RankedStream> added(
      new RankedStream(kStream, rank.local.stream.get(), rank.owned.stream.get(), 1, 2));
  rank.stream = added.get();
  rank.run = rank.stream->NewRun();
  CHECK(empty.Add(std::move(added)).ok());
  Ticket* own[] = {rank.SubmitDeduplicated({9}), rank.SubmitDeduplicated({11})};
  CHECK(!rank.IsKnown(own[0]));
  std::vector<std::vector<Piece>> pieces(2);
  std::shared_ptr<const void> keeps;
  empty.Pack(PeerHeader(), &pieces, &keeps);
  Bytes mine;
  for (const Piece& piece : pieces[1]) {
    const std::uint8_t* const data = static_cast<const std::uint8_t*>(piece.data);
    mine.insert(mine.end(), data, data + piece.bytes);
  }
  received.from = {{nullptr, 0}, {mine.data(), static_cast<std::int64_t>(mine.size())}};
  CHECK(empty.Unpack(received).ok());
  TicketHold owned;
  for (Ticket* ticket : own) CHECK(rank.IsKnown(ticket));
  Take(&rank, own[0], &owned);
  CHECK(rank.OwnedKeys(owned->state(), 0) == (Keys{1, 3, 5, 9}));
  owned = TicketHold();
  for (Ticket* ticket : {first, second, own[0], own[1]}) ticket->DropHold();
}

TEST(ABatchIsTakenOnce) {
  Ranks ranks(1);
  Ticket* ticket = ranks[0].SubmitDeduplicated({1});
  CHECK(ranks.ExchangeKeys().ok());
  TicketHold owned, again;
  CHECK(Take(&ranks[0], ticket, &owned) != nullptr);
  std::shared_ptr<const RankedBatch> batch;
  CHECK(Has(ranks[0].stream->Take(ticket->number(), &batch, &again).text(), "was taken already"));
  ticket->DropHold();
}

TEST(ABatchIsNotTakenBeforeItsKeysCame) {
  Ranks ranks(2);
  Ticket* ticket = ranks[0].SubmitDeduplicated({1});
  CHECK(ranks.ExchangeKeys().ok());
  std::shared_ptr<const RankedBatch> batch;
  TicketHold owned;
  CHECK(!ranks[0].stream->Take(ticket->number(), &batch, &owned).ok());
  Ticket* other = ranks[1].SubmitDeduplicated({1});
  CHECK(ranks.ExchangeKeys().ok());
  CHECK(Take(&ranks[0], ticket, &owned) != nullptr);
  ticket->DropHold();
  other->DropHold();
}

TEST(ABatchIsReadyWhenItAndThoseBeforeItAreDeduplicated) {
  Ranks ranks(1);
  Rank& rank = ranks[0];
  Ticket* first = rank.Submit({1});
  Ticket* second = rank.Submit({2});
  rank.Deduplicate(second->state());  // a faster key worker
  CHECK(!rank.stream->IsReady(second->number()));
  CHECK(ranks.ExchangeKeys().ok());
  CHECK(!rank.IsKnown(second));
  rank.Deduplicate(first->state());
  CHECK(rank.stream->IsReady(second->number()));
  CHECK(ranks.ExchangeKeys().ok());
  CHECK(rank.IsKnown(second));
  first->DropHold();
  second->DropHold();
}

TEST(ABatchWhoseKeysWereSentIsReadyWhateverComesAfterIt) {
  Ranks ranks(2);
  Rank& rank = ranks[0];
  Ticket* first = rank.SubmitDeduplicated({1});
  Ticket* second = rank.Submit({2});  // may get no frame before the first batch is trained
  CHECK(ranks.ExchangeKeys().ok());   // exchange of another step, while the gate waits
  CHECK(!rank.stream->IsReady(second->number()));
  CHECK(rank.stream->IsReady(first->number()));
  first->DropHold();
  second->DropHold();
}

TEST(AGateGetsTheKeysOfItsBatchHoweverManyAreBeforeIt) {
  Ranks ranks(2);
  std::vector<Ticket*> tickets[2];
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 14; ++i) tickets[rank].push_back(ranks[rank].SubmitDeduplicated({i}));
  }
  PeerHeader gate;
  gate.stream = kStream;
  gate.run = 1;
  gate.ticket = 12;
  CHECK(ranks.ExchangeKeys(gate).ok());
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(ranks[rank].IsKnown(tickets[rank][11]));
    CHECK(ranks[rank].streams.IsKnown(gate));
    CHECK(!ranks[rank].IsKnown(tickets[rank][12]));
    for (Ticket* ticket : tickets[rank]) ticket->DropHold();
  }
}

TEST(ABatchThatOneRankDropsFailsWhereItIsTakenAndNamesTheRank) {
  Ranks ranks(2);
  Ticket* kept = ranks[0].SubmitDeduplicated({1, 2});
  ranks[1].SubmitDeduplicated({1, 2})->DropHold();
  CHECK(ranks.ExchangeKeys().ok());
  CHECK(ranks[0].IsKnown(kept));
  std::shared_ptr<const RankedBatch> batch;
  TicketHold owned;
  CHECK(Has(ranks[0].stream->Take(kept->number(), &batch, &owned).text(), "rank 1 has dropped batch 1"));
  CHECK(owned.get() == nullptr);
  CHECK_EQ(ranks[0].owned.view.header()->submitted, 0);
  kept->DropHold();
}

TEST(ABatchThatRanksReadAtDifferentPositionsFailsWhereItIsTaken) {
  const ReadPosition here(1, 0, 2, 64), same(9, 0, 2, 64);  // the number of the dataset differs between processes
  for (const ReadPosition& other :
       {same, ReadPosition(1, 1, 2, 64), ReadPosition(1, 0, 3, 64), ReadPosition(1, 0, 2, 96), ReadPosition()}) {
    Ranks ranks(2);
    std::vector<Ticket*> tickets;
    for (int rank = 0; rank < 2; ++rank) {
      tickets.push_back(ranks[rank].Submit({1, 2}, 0, rank == 0 ? here : other));
      ranks[rank].Deduplicate(tickets.back()->state());
    }
    CHECK(ranks.ExchangeKeys().ok());
    for (int rank = 0; rank < 2; ++rank) {
      TicketHold owned;
      std::shared_ptr<const RankedBatch> batch;
      const CoreStatus status =
          ranks[rank].stream->Take(tickets[static_cast<std::size_t>(rank)]->number(), &batch, &owned);
      CHECK_EQ(status.ok(), other.Fingerprint() == here.Fingerprint());
      if (!status.ok())
        CHECK(check::Has(status.text(), "E313: rank 1 reads batch 1 of stream 7 at another position") == (rank == 0));
      if (status.ok()) CHECK_EQ(owned->record().read.consumed, std::int64_t{64});
    }
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(ABatchThatAllRanksDropIsForgottenAndTheNextOneGoesOn) {
  Ranks ranks(2);
  Ticket* next[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].SubmitDeduplicated({1})->DropHold();
    next[rank] = ranks[rank].SubmitDeduplicated({2});
  }
  CHECK(ranks.ExchangeKeys().ok());
  CHECK(ranks.ExchangeKeys().ok());
  BatchName name;
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(!ranks[rank].stream->NameOf(TicketNumber(3, 1), &name));
    TicketHold owned;
    CHECK(Take(&ranks[rank], next[rank], &owned) != nullptr);
    next[rank]->DropHold();
  }
}

TEST(TheOwnedTicketClosesWhenABatchIsDroppedAfterItsKeysWereSent) {
  Ranks ranks(2);
  Ticket* tickets[2];
  for (int rank = 0; rank < 2; ++rank) tickets[rank] = ranks[rank].SubmitDeduplicated({1, 2});
  CHECK(ranks.ExchangeKeys().ok());
  CHECK_EQ(ranks[0].owned.view.header()->tail, 1);
  CHECK_EQ(ranks[0].owned.view.frame(0)->closed, 0u);
  tickets[0]->DropHold();
  CHECK(ranks.ExchangeKeys().ok());
  CHECK_EQ(ranks[0].owned.view.frame(0)->closed, 1u);
  CHECK_EQ(ranks[1].owned.view.frame(0)->closed, 0u);
  tickets[1]->DropHold();
}

TEST(ABatchThatIsOverIsForgotten) {
  Ranks ranks(1);
  std::vector<std::int64_t> owned_numbers;
  for (int step = 0; step < 100; ++step) {
    Ticket* ticket = ranks[0].SubmitDeduplicated({step, step + 1});
    CHECK(ranks.ExchangeKeys().ok());
    TicketHold owned;
    const auto batch = Take(&ranks[0], ticket, &owned);
    if (step > 0) CHECK(ranks[0].stream->Taken(owned_numbers.back()) == nullptr);
    owned_numbers.push_back(batch->owned);
    ticket->DropHold();
    const std::int64_t frame = owned->state();
    owned = TicketHold();  // the step ends
    for (int table = 0; table < kTables; ++table) {
      Exchange(ranks[0].owned.view.word(table, frame), static_cast<std::uint32_t>(layout::kRetired));
    }
  }
  CHECK_EQ(ranks[0].owned.view.header()->parked, 0);
  CHECK_EQ(ranks[0].local.view.header()->parked, 0);
}

TEST(KeysOfAnEarlierIteratorAreForgottenWhenAllRanksHaveBegunALaterOne) {
  Ranks ranks(2);
  // Rank 0 has two more batches than rank 1, whose data ends.
  std::vector<Ticket*> tickets;
  for (int i = 0; i < 2; ++i) tickets.push_back(ranks[0].SubmitDeduplicated({i}));
  CHECK(ranks.ExchangeKeys().ok());
  const std::int64_t first = tickets[0]->number();
  for (Ticket* ticket : tickets) ticket->DropHold();
  Ticket* next[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].run = ranks[rank].stream->NewRun();
    next[rank] = ranks[rank].SubmitDeduplicated({5});
  }
  CHECK(ranks.ExchangeKeys().ok());
  CHECK(ranks.ExchangeKeys().ok());
  BatchName name;
  CHECK(!ranks[0].stream->NameOf(first, &name));
  for (int rank = 0; rank < 2; ++rank) {
    TicketHold owned;
    CHECK(Take(&ranks[rank], next[rank], &owned) != nullptr);
    next[rank]->DropHold();
  }
}
