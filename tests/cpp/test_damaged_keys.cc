// Invalid keys of batches: a damaged frame, a damaged message, and a stream that has ended.
#include <cstring>

#include "ranked_rings.h"

using namespace ranked_rings;

namespace {

// Positions of the head and of the count of table 0 in the message of a rank (docs/internals/protocol.md).
enum Word : std::size_t { kBytes, kStreamWord, kRun, kIndex, kTimestamp, kClosed, kTablesWord, kCount = 8, kKeys = 10 };

void Set(Bytes* said, std::size_t word, std::int64_t value) {
  std::memcpy(said->data() + word * 8, &value, sizeof(value));
}

CoreStatus Refusal(std::size_t word, std::int64_t value) {
  Ranks ranks(2);
  Ticket* tickets[] = {ranks[0].SubmitDeduplicated({1, 2, 3, 4}), ranks[1].SubmitDeduplicated({1, 2, 3, 4})};
  const CoreStatus status = ranks.ExchangeKeys(
      PeerHeader(), [&](std::vector<std::vector<Bytes>>* said) { Set(&(*said)[0][1], word, value); });
  for (Ticket* ticket : tickets) ticket->DropHold();
  return status;
}

}  // namespace

TEST(ABatchWithMoreKeysThanIdsIsRefused) {
  for (const std::int64_t count : {std::int64_t{-1}, std::int64_t{4}, std::int64_t{1} << 60}) {
    Ranks ranks(2);
    Ticket* tickets[2];
    for (int rank = 0; rank < 2; ++rank) tickets[rank] = ranks[rank].SubmitDeduplicated({1, 2, 3});
    ranks[0].local.part(0, 1)->unique_count = count;
    CHECK(ranks.ExchangeKeys().ok());
    std::shared_ptr<const RankedBatch> batch;
    TicketHold owned;
    CHECK(Has(ranks[0].stream->Take(tickets[0]->number(), &batch, &owned).text(), "E301"));
    CHECK(Has(ranks[1].stream->Take(tickets[1]->number(), &batch, &owned).text(), "rank 0 has dropped"));
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(WhereTheKeysOfABatchLieIsNotReadFromTheRing) {
  using Damage = std::function<void(layout::Frame*, layout::Part*)>;
  const Damage damages[] = {
      [](layout::Frame*, layout::Part* part) { part->id_count = std::int64_t{1} << 60; },
      [](layout::Frame*, layout::Part* part) { part->unique = std::int64_t{1} << 40; },
      [](layout::Frame*, layout::Part* part) { part->unique = -8; },
      [](layout::Frame*, layout::Part* part) { part->occurrences = INT64_MAX - 3; },
      [](layout::Frame* frame, layout::Part*) { frame->length = std::int64_t{1} << 60; },
      [](layout::Frame* frame, layout::Part*) { frame->offset = std::int64_t{1} << 60; },
      [](layout::Frame* frame, layout::Part*) { frame->timestamp = -1; },
  };
  for (const Damage& damage : damages) {
    Ranks ranks(2);
    Ticket* tickets[2];
    for (int rank = 0; rank < 2; ++rank) tickets[rank] = ranks[rank].SubmitDeduplicated({1, 2, 3});
    layout::Part* const part = ranks[0].local.part(0, 1);
    damage(ranks[0].local.view.frame(0), part);
    CHECK(ranks.ExchangeKeys().ok());
    std::shared_ptr<const RankedBatch> batch;
    TicketHold owned;
    for (int rank = 0; rank < 2; ++rank) {
      CHECK(ranks[rank].stream->Take(tickets[rank]->number(), &batch, &owned).ok());
      CHECK(ranks[rank].OwnedKeys(0, 0) == (rank == 0 ? Keys{2, 2} : Keys{1, 3, 1, 3}));
    }
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(EveryFieldOfKeysThatCannotBeRightIsRefused) {
  CHECK(Refusal(kTimestamp, 5).ok());
  for (const std::int64_t bytes : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, INT64_MAX}) {
    CHECK(Has(Refusal(kBytes, bytes).text(), "E301"));
  }
  for (const std::int64_t stream : {std::int64_t{32}, std::int64_t{-1}, (std::int64_t{1} << 32) + kStream}) {
    CHECK(Has(Refusal(kStreamWord, stream).text(), "which cannot be"));
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
  CHECK(Has(Refusal(kKeys + 2, -1).text(), "occurs -1 times"));  // the weights follow the two keys
}

TEST(KeysThatAreCutShortAreRefused) {
  for (std::size_t bytes = 1; bytes < 128; bytes += 7) {
    Ranks ranks(2);
    Ticket* tickets[] = {ranks[0].SubmitDeduplicated({1, 2, 3, 4}), ranks[1].SubmitDeduplicated({1, 2, 3, 4})};
    CHECK(!ranks
               .ExchangeKeys(PeerHeader(),
                             [bytes](std::vector<std::vector<Bytes>>* said) { (*said)[0][1].resize(bytes); })
               .ok());
    for (Ticket* ticket : tickets) ticket->DropHold();
  }
}

TEST(KeysThatComeTwiceAreRefused) {
  Ranks ranks(2);
  Ticket* ticket = ranks[0].SubmitDeduplicated({1, 2, 3, 4});
  CHECK(Has(ranks
                .ExchangeKeys(PeerHeader(),
                              [](std::vector<std::vector<Bytes>>* said) {
                                Bytes& one = (*said)[0][1];
                                const Bytes again = one;
                                one.insert(one.end(), again.begin(), again.end());
                              })
                .text(),
            "twice"));
  ticket->DropHold();
}

TEST(KeysThatCameBeforeTheirStreamAreRefusedWhenItIsAdded) {
  Ranks ranks(2);
  Ticket* ticket = ranks[0].SubmitDeduplicated({1, 2, 3, 4});
  CHECK(ranks
            .ExchangeKeys(PeerHeader(),
                          [](std::vector<std::vector<Bytes>>* said) {
                            Set(&(*said)[0][1], kStreamWord, kStream + 1);
                            Set(&(*said)[0][1], kRun, 0);
                          })
            .ok());
  Rank& other = ranks[1];
  std::unique_ptr<RankedStream> later(
      new RankedStream(kStream + 1, other.local.stream.get(), other.owned.stream.get(), 1, 2));
  CHECK(Has(other.streams.Add(std::move(later)).text(), "E301"));
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
