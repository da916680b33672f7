// Ranks with rings in memory.  The tests play the key workers.
#ifndef ASCPIPE_TESTS_CPP_RANKED_RINGS_H_
#define ASCPIPE_TESTS_CPP_RANKED_RINGS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "core/atomics.h"
#include "peers/ranked_stream.h"
#include "segments.h"

namespace ranked_rings {

using namespace ascpipe;

using Keys = std::vector<std::int64_t>;
using Bytes = std::vector<std::uint8_t>;

constexpr int kStream = 7;
constexpr int kTables = 2;

inline std::atomic<int>& Alive() {
  static std::atomic<int> alive{0};
  return alive;
}

inline RingPlan Plan(int channel) {
  RingPlan plan{16, kTables, 1 << 18};
  plan.channel = channel;
  return plan;
}

// One rank: its rings, and a key worker that deduplicates on request.
struct Rank {
  Rank(int number, int ranks) : number(number), ranks(ranks), local(Plan(layout::kLocal)), owned(Plan(layout::kTrain)) {
    stream = new RankedStream(kStream, local.stream.get(), owned.stream.get(), number, ranks);
    CHECK(streams.Add(std::unique_ptr<RankedStream>(stream)).ok());
    run = stream->NewRun();
  }

  // Submits a batch.  The ids of table 1 are the negated ids of table 0.
  Ticket* Submit(const Keys& ids, std::int64_t timestamp = 0, const ReadPosition& read = ReadPosition()) {
    std::unique_ptr<TestBatch> batch(new TestBatch(kTables, ids, &Alive()));
    batch->read = read;
    negated.emplace_back(new Keys);
    for (const std::int64_t id : ids) negated.back()->push_back(-id);
    batch->features[1].data = negated.back()->data();
    batch->timestamp = timestamp;
    Ticket* ticket = nullptr;
    CHECK(stream->Submit(run, std::move(batch), &ticket).ok());
    return ticket;
  }

  // Writes the distinct keys, ordered by owner and then by value, and the number of occurrences of each key.
  void Deduplicate(std::int64_t frame) {
    for (int table = 0; table < kTables; ++table) {
      layout::Part* const part = local.part(frame, table);
      std::map<std::pair<int, std::int64_t>, std::int32_t> counts;
      const std::int64_t* const ids = local.array<std::int64_t>(frame, part->ids);
      for (std::int64_t i = 0; i < part->id_count; ++i) ++counts[{OwnerOf(ids[i], ranks), ids[i]}];
      std::int64_t row = 0;
      for (const auto& one : counts) {
        local.array<std::int64_t>(frame, part->unique)[row] = one.first.second;
        local.array<std::int32_t>(frame, part->occurrences)[row++] = one.second;
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

  // Returns the keys that this rank sends to each rank.
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
    const layout::Part* const part = owned.part(frame, table);
    const std::int64_t* const ids = owned.array<std::int64_t>(frame, part->ids);
    return Keys(ids, ids + part->id_count);
  }
  Keys OwnedWeights(std::int64_t frame, int table) const {
    const layout::Part* const part = owned.part(frame, table);
    const std::int32_t* const weights = owned.array<std::int32_t>(frame, part->weights);
    return Keys(weights, weights + part->id_count);
  }

  const int number, ranks;
  std::vector<std::unique_ptr<Keys>> negated;
  TestRing local, owned;  // before the members that use the rings
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

inline std::shared_ptr<const RankedBatch> Take(Rank* rank, Ticket* ticket, TicketHold* owned) {
  std::shared_ptr<const RankedBatch> batch;
  const CoreStatus status = rank->stream->Take(ticket->number(), &batch, owned);
  if (!status.ok()) check::Failed(__FILE__, __LINE__, status.text());
  return batch;
}

inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace ranked_rings

#endif  // ASCPIPE_TESTS_CPP_RANKED_RINGS_H_
