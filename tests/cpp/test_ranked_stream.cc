// Keys of batches on their way from each rank to their owners, over rings in memory.
#include <cstring>
#include <functional>
#include <map>

#include "check.h"
#include "core/atomics.h"
#include "peers/ranked_stream.h"
#include "segments.h"

using namespace ascpipe;

namespace {

using Keys = std::vector<std::int64_t>;
using Bytes = std::vector<std::uint8_t>;

constexpr int kStream = 7;
constexpr int kTables = 2;

std::atomic<int> alive{0};

RingPlan Plan(int channel) {
  RingPlan plan{16, kTables, 1 << 18};
  plan.channel = channel;
  return plan;
}

// One rank: its rings, and a key worker that deduplicates when it is told to.
struct Rank {
  Rank(int number, int ranks) : number(number), ranks(ranks), local(Plan(layout::kLocal)), owned(Plan(layout::kTrain)) {
    stream = new RankedStream(kStream, local.stream.get(), owned.stream.get(), number, ranks);
    streams.Add(std::unique_ptr<RankedStream>(stream));
    run = stream->NewRun();
  }

  // Table 0 has the ids, table 1 has them negated.
  Ticket* Submit(const Keys& ids, std::int64_t timestamp = 0) {
    std::unique_ptr<TestBatch> batch(new TestBatch(kTables, ids, &alive));
    negated.emplace_back(new Keys);
    for (const std::int64_t id : ids) negated.back()->push_back(-id);
    batch->features[1].data = negated.back()->data();
    batch->timestamp = timestamp;
    Ticket* ticket = nullptr;
    CHECK(stream->Submit(run, std::move(batch), &ticket).ok());
    return ticket;
  }

  // Distinct keys by owner, then by value, and how often each occurs.
  void Deduplicate(std::int64_t frame) {
    for (int table = 0; table < kTables; ++table) {
      layout::Part* const part = local.view.part(frame, table);
      std::map<std::pair<int, std::int64_t>, std::int32_t> counts;
      const std::int64_t* const ids = local.view.array<std::int64_t>(frame, part->ids);
      for (std::int64_t i = 0; i < part->id_count; ++i) ++counts[{OwnerOf(ids[i], ranks), ids[i]}];
      std::int64_t row = 0;
      for (const auto& one : counts) {
        local.view.array<std::int64_t>(frame, part->unique)[row] = one.first.second;
        local.view.array<std::int32_t>(frame, part->occurrences)[row++] = one.second;
      }
      part->unique_count = row;
      Exchange(local.view.word(table, frame), static_cast<std::uint32_t>(layout::kDeduped));
    }
  }
  Ticket* SubmitDeduplicated(const Keys& ids, std::int64_t timestamp = 0) {
    Ticket* const ticket = Submit(ids, timestamp);
    Deduplicate(ticket->state());
    return ticket;
  }

  BatchName NameOf(Ticket* ticket) const {
    BatchName name;
    CHECK(stream->NameOf(ticket->number(), &name));
    return name;
  }
  bool IsKnown(Ticket* ticket) const { return stream->IsKnown(NameOf(ticket)); }

  // What this rank says to each other one.
  std::vector<Bytes> Say(const PeerHeader& header = PeerHeader()) {
    std::vector<std::vector<Piece>> pieces(static_cast<std::size_t>(ranks));
    std::shared_ptr<const void> keeps;
    streams.Pack(header, &pieces, &keeps);
    std::vector<Bytes> said;
    for (const std::vector<Piece>& one : pieces) {
      said.emplace_back();
      for (const Piece& piece : one) {
        const std::uint8_t* const data = static_cast<const std::uint8_t*>(piece.data);
        said.back().insert(said.back().end(), data, data + piece.bytes);
      }
    }
    return said;
  }

  CoreStatus Hear(const std::vector<Bytes>& came) {
    Received received;
    for (const Bytes& bytes : came) received.from.push_back({bytes.data(), static_cast<std::int64_t>(bytes.size())});
    return streams.Unpack(received);
  }

  Keys OwnedKeys(std::int64_t frame, int table) const {
    const layout::Part* const part = owned.view.part(frame, table);
    const std::int64_t* const ids = owned.view.array<std::int64_t>(frame, part->ids);
    return Keys(ids, ids + part->id_count);
  }
  Keys OwnedWeights(std::int64_t frame, int table) const {
    const layout::Part* const part = owned.view.part(frame, table);
    const std::int32_t* const weights = owned.view.array<std::int32_t>(frame, part->weights);
    return Keys(weights, weights + part->id_count);
  }

  const int number, ranks;
  std::vector<std::unique_ptr<Keys>> negated;
  TestRing local, owned;  // before what lies over them
  RankedStreams streams;
  RankedStream* stream;
  std::int64_t run;
};

struct Ranks {
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank) all.emplace_back(new Rank(rank, count));
  }
  Rank& operator[](int rank) { return *all[static_cast<std::size_t>(rank)]; }

  CoreStatus ExchangeKeys(const PeerHeader& header = PeerHeader(),
                          const std::function<void(std::vector<std::vector<Bytes>>*)>& damage = nullptr) {
    std::vector<std::vector<Bytes>> said;
    for (auto& rank : all) said.push_back(rank->Say(header));
    if (damage) damage(&said);
    CoreStatus first;
    for (std::size_t to = 0; to < all.size(); ++to) {
      std::vector<Bytes> came;
      for (const auto& from : said) came.push_back(from[to]);
      const CoreStatus status = all[to]->Hear(came);
      if (first.ok()) first = status;
    }
    return first;
  }

  std::vector<std::unique_ptr<Rank>> all;
};

std::shared_ptr<const RankedBatch> Take(Rank* rank, Ticket* ticket, TicketHold* owned) {
  std::shared_ptr<const RankedBatch> batch;
  const CoreStatus status = rank->stream->Take(ticket->number(), &batch, owned);
  if (!status.ok()) check::Failed(__FILE__, __LINE__, status.text());
  return batch;
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// The head and the count of table 0 in what a rank says; docs/protocol.md.
enum Word : std::size_t { kBytes, kStreamWord, kRun, kIndex, kTimestamp, kClosed, kTablesWord, kCount = 8, kKeys = 10 };

void Set(Bytes* said, std::size_t word, std::int64_t value) {
  std::memcpy(said->data() + word * 8, &value, sizeof(value));
}

CoreStatus Refusal(std::size_t word, std::int64_t value) {
  Ranks ranks(2);
  Ticket* tickets[] = {ranks[0].SubmitDeduplicated({1, 2, 3, 4}), ranks[1].SubmitDeduplicated({1, 2, 3, 4})};
  const CoreStatus status =
      ranks.ExchangeKeys(PeerHeader(), [&](std::vector<std::vector<Bytes>>* said) { Set(&(*said)[0][1], word, value); });
  for (Ticket* ticket : tickets) ticket->DropHold();
  return status;
}

}  // namespace

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
  // Rank 0 has two batches more than rank 1, whose data ends.
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

TEST(AFrameWhoseRecordIsDamagedIsNotRead) {
  using Damage = std::function<void(layout::Frame*, layout::Part*)>;
  const Damage damages[] = {
      [](layout::Frame*, layout::Part* part) { part->unique_count = -1; },
      [](layout::Frame*, layout::Part* part) { part->unique_count = part->id_count + 1; },
      [](layout::Frame*, layout::Part* part) { part->unique_count = part->id_count = std::int64_t{1} << 60; },
      [](layout::Frame*, layout::Part* part) { part->unique = std::int64_t{1} << 40; },
      [](layout::Frame*, layout::Part* part) { part->unique = -8; },
      [](layout::Frame*, layout::Part* part) { part->unique += 1; },
      [](layout::Frame*, layout::Part* part) { part->occurrences = INT64_MAX - 3; },
      [](layout::Frame*, layout::Part* part) { part->occurrences = -4; },
      [](layout::Frame* frame, layout::Part*) { frame->length = std::int64_t{1} << 60; },
      [](layout::Frame* frame, layout::Part*) { frame->length = 8; },
      [](layout::Frame* frame, layout::Part*) { frame->offset = -64; },
      [](layout::Frame* frame, layout::Part*) { frame->offset = std::int64_t{1} << 60; },
  };
  for (const Damage& damage : damages) {
    Ranks ranks(2);
    Ticket* tickets[2];
    for (int rank = 0; rank < 2; ++rank) tickets[rank] = ranks[rank].SubmitDeduplicated({1, 2, 3});
    damage(ranks[0].local.view.frame(0), ranks[0].local.view.part(0, 1));
    CHECK(ranks.ExchangeKeys().ok());
    std::shared_ptr<const RankedBatch> batch;
    TicketHold owned;
    CHECK(Has(ranks[0].stream->Take(tickets[0]->number(), &batch, &owned).text(), "E301"));
    CHECK(Has(ranks[1].stream->Take(tickets[1]->number(), &batch, &owned).text(), "rank 0 has dropped"));
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(EveryFieldOfKeysThatCannotBeRightIsRefused) {
  CHECK(Refusal(kTimestamp, 5).ok());
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, INT64_MAX}) {
    CHECK(Has(Refusal(kBytes, bytes).text(), "E301"));
  }
  for (const std::int64_t stream : {std::int64_t{8}, std::int64_t{-1}, (std::int64_t{1} << 32) + kStream}) {
    CHECK(Has(Refusal(kStreamWord, stream).text(), "which is not here"));
  }
  for (const std::size_t word : {kRun, kIndex}) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, INT64_MIN}) {
      CHECK(Has(Refusal(word, value).text(), "E301"));
    }
  }
  for (const std::int64_t closed : {1, 2, -1}) CHECK(Has(Refusal(kClosed, closed).text(), "E301"));
  for (const std::int64_t tables : {std::int64_t{1}, std::int64_t{3}, std::int64_t{-1}, INT64_MAX}) {
    CHECK(Has(Refusal(kTablesWord, tables).text(), "E301"));
  }
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{1}, std::int64_t{99}, INT64_MAX}) {
    CHECK(Has(Refusal(kCount, count).text(), "E301"));
  }
  CHECK(Has(Refusal(kKeys, 2).text(), "asks rank 1 for key 2 of table 0, which rank 0 owns"));
  CHECK(Has(Refusal(kKeys + 2, -1).text(), "occurs -1 times"));  // two keys, then their weights
}

TEST(KeysThatAreCutShortAreRefused) {
  for (std::size_t bytes = 1; bytes < 128; bytes += 7) {
    Ranks ranks(2);
    Ticket* tickets[] = {ranks[0].SubmitDeduplicated({1, 2, 3, 4}), ranks[1].SubmitDeduplicated({1, 2, 3, 4})};
    CHECK(!ranks.ExchangeKeys(PeerHeader(), [bytes](std::vector<std::vector<Bytes>>* said) {
      (*said)[0][1].resize(bytes);
    }).ok());
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(KeysThatComeTwiceAreRefused) {
  Ranks ranks(2);
  Ticket* ticket = ranks[0].SubmitDeduplicated({1, 2, 3, 4});
  CHECK(Has(ranks.ExchangeKeys(PeerHeader(), [](std::vector<std::vector<Bytes>>* said) {
    Bytes& one = (*said)[0][1];
    const Bytes again = one;
    one.insert(one.end(), again.begin(), again.end());
  }).text(), "twice"));
  ticket->DropHold();
}

TEST(AStreamThatIsStoppedRefusesItsBatches) {
  Ranks ranks(1);
  Ticket* ticket = ranks[0].SubmitDeduplicated({1});
  ranks[0].owned.stream->Stop();
  CHECK(ranks.ExchangeKeys().ok());
  std::shared_ptr<const RankedBatch> batch;
  TicketHold owned;
  CHECK(Has(ranks[0].stream->Take(ticket->number(), &batch, &owned).text(), "was stopped"));
  ranks[0].local.stream->Stop();
  CHECK(ranks.ExchangeKeys().ok());
  ticket->DropHold();
}
