#include "peers/ranked_stream.h"

#include <algorithm>
#include <cstring>

#include "core/atomics.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

constexpr int kMostBatches = 8;  // of one message: a step does not wait for the keys of many others
constexpr std::int64_t kMostTables = 1 << 16;

std::int64_t Filled(std::int64_t bytes) { return (bytes + 7) & ~std::int64_t{7}; }

const std::int64_t kZeros = 0;  // fills an array up

}  // namespace

// What one rank asks of this one in one batch.
struct RankedStream::Asked {
  bool came = false;
  bool closed = false;
  std::int64_t timestamp = 0;
  std::vector<std::vector<std::int64_t>> keys;     // by table
  std::vector<std::vector<std::int32_t>> weights;  // likewise
};

struct RankedStream::Entry {
  Ticket* local = nullptr;  // with a reference; null: this rank has not submitted it yet
  bool sent = false;
  std::vector<RowShares> shares;
  std::vector<Asked> asked;  // by rank
  Ticket* owned = nullptr;   // with a reference
  TicketHold hold;           // of it, until the batch is taken
  CoreStatus status;         // why there is none although every rank has said what it asks for

  ~Entry() {
    hold = TicketHold();
    if (owned != nullptr) owned->Unref();
    if (local != nullptr) local->Unref();
  }
};

RankedStream::RankedStream(int number, Stream* local, Stream* owned, int rank, int ranks)
    : number_(number), local_(local), owned_(owned), rank_(rank), ranks_(ranks) {}

RankedStream::~RankedStream() {
  for (auto& taken : taken_) taken.second.second->Unref();
}

std::int64_t RankedStream::NewRun() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ++runs_;
}

CoreStatus RankedStream::Submit(std::int64_t run, std::unique_ptr<Batch> batch, Ticket** ticket) {
  // One after the other: the order of names is that of tickets.
  std::lock_guard<std::mutex> lock(mutex_);
  const CoreStatus status = local_->Submit(std::move(batch), ticket);
  if (!status.ok()) return status;
  const BatchName name = {run, ++submitted_[run]};
  std::unique_ptr<Entry>& entry = entries_[name];
  if (entry == nullptr) entry.reset(new Entry);
  entry->local = *ticket;
  entry->local->Ref();
  names_[(*ticket)->number()] = name;
  unsent_.push_back(name);
  return status;
}

BatchName RankedStream::NameOfNext() const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto last = submitted_.find(runs_);
  return {runs_, last == submitted_.end() ? 1 : last->second + 1};
}

bool RankedStream::NameOf(std::int64_t local, BatchName* name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = names_.find(local);
  if (found == names_.end()) return false;
  *name = found->second;
  return true;
}

bool RankedStream::IsReady(std::int64_t local) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = names_.find(local);
  if (found == names_.end()) return true;
  const std::int64_t frame = entries_.at(found->second)->local->state();
  if (frame < 0) return frame != Ticket::kParked;
  for (int index = 0; index < local_->ring().tables(); ++index) {
    if (LoadAcquire(local_->ring().word(index, frame)) != layout::kDeduped) return false;  // SYNC deduplicated: load
  }
  return true;
}

bool RankedStream::IsKnown(const BatchName& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second->asked.empty()) return false;
  return std::all_of(found->second->asked.begin(), found->second->asked.end(), [](const Asked& a) { return a.came; });
}

// Finds which distinct keys each owner has; false: the batch is not deduplicated yet.
bool RankedStream::Deal(Entry* entry) {
  const RingView& ring = local_->ring();
  const std::int64_t frame = entry->local->state();
  if (frame < 0) return false;
  for (int index = 0; index < ring.tables(); ++index) {
    if (LoadAcquire(ring.word(index, frame)) != layout::kDeduped) return false;  // SYNC deduplicated: load
  }
  entry->shares.resize(static_cast<std::size_t>(ring.tables()));
  for (int index = 0; index < ring.tables(); ++index) {
    const layout::Part* part = ring.part(frame, index);
    const std::int64_t* const keys = ring.array<std::int64_t>(frame, part->unique);
    const std::int64_t* const end = keys + part->unique_count;
    std::vector<std::int64_t>& owners = entry->shares[static_cast<std::size_t>(index)].owners;
    owners.assign(1, 0);
    for (int owner = 0; owner < ranks_; ++owner) {
      const std::int64_t* const next = std::partition_point(
          keys + owners.back(), end, [this, owner](std::int64_t key) { return OwnerOf(key, ranks_) <= owner; });
      owners.push_back(next - keys);
    }
  }
  return true;
}

void RankedStream::Pack(std::vector<std::vector<Piece>>* to, std::vector<std::shared_ptr<const void>>* keeps) {
  std::lock_guard<std::mutex> lock(mutex_);
  Clear();
  const RingView& ring = local_->ring();
  const std::size_t tables = static_cast<std::size_t>(ring.tables());
  for (int batch = 0; batch < kMostBatches && !unsent_.empty(); ++batch) {
    const BatchName name = unsent_.front();
    Entry* const entry = entries_.at(name).get();
    const auto hold = std::make_shared<TicketHold>();
    if (entry->local->TryHold()) *hold = TicketHold(entry->local);  // its frame stays while the message is made
    const bool closed = hold->get() == nullptr || entry->local->state() == Ticket::kClosed ||
                        entry->local->state() == Ticket::kFailed;
    if (!closed && !Deal(entry)) return;  // in order: the others wait for this one first
    unsent_.pop_front();
    entry->sent = true;
    const std::int64_t frame = entry->local->state();
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto words = std::make_shared<std::vector<std::int64_t>>(sizeof(Head) / sizeof(std::int64_t) + tables);
      std::vector<Piece>& pieces = (*to)[static_cast<std::size_t>(rank)];
      pieces.push_back({words->data(), static_cast<std::int64_t>(words->size() * sizeof(std::int64_t))});
      Head head = {pieces.back().bytes, number_, name.run, name.index, 0, closed ? 1 : 0, ring.tables(), 0};
      if (!closed) {
        head.timestamp = ring.frame(frame)->timestamp;
        for (std::size_t table = 0; table < tables; ++table) {
          const layout::Part* part = ring.part(frame, static_cast<int>(table));
          const std::vector<std::int64_t>& owners = entry->shares[table].owners;
          const std::int64_t begin = owners[static_cast<std::size_t>(rank)];
          const std::int64_t count = owners[static_cast<std::size_t>(rank) + 1] - begin;
          (*words)[sizeof(Head) / sizeof(std::int64_t) + table] = count;
          pieces.push_back({ring.array<std::int64_t>(frame, part->unique) + begin, count * 8});
          pieces.push_back({ring.array<std::int32_t>(frame, part->occurrences) + begin, count * 4});
          if (count % 2 != 0) pieces.push_back({&kZeros, 4});
          head.bytes += count * 8 + Filled(count * 4);
        }
      }
      std::memcpy(words->data(), &head, sizeof(head));
      keeps->push_back(words);
    }
    keeps->push_back(hold);
  }
}

CoreStatus RankedStream::Unpack(int from, const Head& head, const std::uint8_t* data, std::int64_t bytes) {
  const std::int64_t tables = local_->ring().tables();
  const char* const lost = ". The batch was not taken, and nothing else is lost; restart all ranks";
  if (head.tables != tables || bytes < tables * 8) {
    return Error(kE301, "rank ", from, " sent keys of ", head.tables, " tables in stream ", number_, ", which has ",
                 tables, lost);
  }
  Asked asked;
  asked.came = true;
  asked.closed = head.closed != 0;
  asked.timestamp = head.timestamp;
  asked.keys.resize(static_cast<std::size_t>(tables));
  asked.weights.resize(static_cast<std::size_t>(tables));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tables));
  std::memcpy(counts.data(), data, static_cast<std::size_t>(tables) * 8);
  std::int64_t at = tables * 8;
  for (std::size_t table = 0; table < counts.size(); ++table) {
    const std::int64_t count = counts[table];
    if (count < 0 || count > (bytes - at) / 12 || at + count * 8 + Filled(count * 4) > bytes) {
      return Error(kE301, "rank ", from, " sent ", count, " keys of table ", table, " of stream ", number_, " in ",
                   bytes - at, " bytes", lost);
    }
    const std::size_t size = static_cast<std::size_t>(count);
    asked.keys[table].resize(size);
    asked.weights[table].resize(size);
    if (count > 0) std::memcpy(asked.keys[table].data(), data + at, size * 8);
    if (count > 0) std::memcpy(asked.weights[table].data(), data + at + count * 8, size * 4);
    at += count * 8 + Filled(count * 4);
    const auto foreign = std::find_if(asked.keys[table].begin(), asked.keys[table].end(),
                                      [this](std::int64_t key) { return OwnerOf(key, ranks_) != rank_; });
    if (foreign != asked.keys[table].end()) {
      return Error(kE301, "rank ", from, " asks rank ", rank_, " for key ", *foreign, " of table ", table,
                   ", which rank ", OwnerOf(*foreign, ranks_), " owns", lost);
    }
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const BatchName name = {head.run, head.index};
  std::unique_ptr<Entry>& entry = entries_[name];
  if (entry == nullptr) entry.reset(new Entry);
  entry->asked.resize(static_cast<std::size_t>(ranks_));
  Asked& mine = entry->asked[static_cast<std::size_t>(from)];
  if (mine.came) return Error(kE301, "rank ", from, " sent the keys of batch ", head.index, " twice", lost);
  mine = std::move(asked);
  if (std::all_of(entry->asked.begin(), entry->asked.end(), [](const Asked& one) { return one.came; })) {
    Complete(name, entry.get());
  }
  return CoreStatus();
}

namespace {

// The keys that all ranks ask of this one: one feature for each table, in rank order.
class AskedBatch : public Batch {
 public:
  std::vector<std::vector<std::int64_t>> keys;
  std::vector<std::vector<std::int32_t>> weights;
};

}  // namespace

// Submits a batch of which every rank has said what it asks for.
void RankedStream::Complete(const BatchName& name, Entry* entry) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!entry->asked[static_cast<std::size_t>(rank)].closed) continue;
    entry->status = Error(Code::kFailedPrecondition, "rank ", rank, " has dropped batch ", name.index, " of stream ",
                          number_, " (iterator ", name.run, "), which other ranks may still train: all ranks take and "
                          "skip the same batches. No table has changed by it");
    return;
  }
  std::unique_ptr<AskedBatch> batch(new AskedBatch);
  const std::size_t tables = static_cast<std::size_t>(local_->ring().tables());
  batch->keys.resize(tables);
  batch->weights.resize(tables);
  entry->shares.resize(tables);
  for (Asked& asked : entry->asked) batch->timestamp = std::max(batch->timestamp, asked.timestamp);
  for (std::size_t table = 0; table < tables; ++table) {
    std::vector<std::int64_t>& askers = entry->shares[table].askers;
    askers.assign(1, 0);
    for (const Asked& asked : entry->asked) {
      batch->keys[table].insert(batch->keys[table].end(), asked.keys[table].begin(), asked.keys[table].end());
      batch->weights[table].insert(batch->weights[table].end(), asked.weights[table].begin(),
                                   asked.weights[table].end());
      askers.push_back(static_cast<std::int64_t>(batch->keys[table].size()));
    }
    FeatureIds ids;
    ids.data = batch->keys[table].data();
    ids.is_int32 = false;
    ids.count = askers.back();
    ids.shape = {ids.count};
    ids.table = static_cast<int>(table);
    ids.weights = batch->weights[table].data();
    batch->features.push_back(std::move(ids));
  }
  for (Asked& asked : entry->asked) {  // no longer needed
    asked.keys.clear();
    asked.weights.clear();
  }
  Ticket* ticket = nullptr;
  entry->status = owned_->Submit(std::move(batch), &ticket);
  if (!entry->status.ok()) return;
  ticket->Ref();
  entry->owned = ticket;
  entry->hold = TicketHold(ticket);
}

CoreStatus RankedStream::Take(std::int64_t local, std::shared_ptr<const RankedBatch>* batch, TicketHold* owned) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto named = names_.find(local);
  if (named == names_.end()) {
    return Error(Code::kInvalidArgument, "ticket ", SequenceOf(local), " of stream ", number_,
                 " was taken already: a batch is fetched and used in one run call");
  }
  const BatchName name = named->second;
  const std::unique_ptr<Entry> entry = std::move(entries_.at(name));
  entries_.erase(name);
  names_.erase(named);
  if (!entry->status.ok()) return entry->status;
  const auto made = std::make_shared<RankedBatch>();
  made->name = name;
  made->local = local;
  made->frame = entry->local->state();
  made->owned = entry->owned->number();
  made->shares = std::move(entry->shares);
  *owned = std::move(entry->hold);
  entry->owned->Ref();
  taken_[made->owned] = {made, entry->owned};
  *batch = made;
  return CoreStatus();
}

std::shared_ptr<const RankedBatch> RankedStream::Taken(std::int64_t owned) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = taken_.find(owned);
  return found == taken_.end() ? nullptr : found->second.first;
}

void RankedStream::DropClosed() {
  std::lock_guard<std::mutex> lock(mutex_);
  Clear();
}

// Forgets batches that are over: trained, or dropped by every rank.
void RankedStream::Clear() {
  for (auto taken = taken_.begin(); taken != taken_.end();) {
    Ticket* const ticket = taken->second.second;
    if (ticket->state() != Ticket::kClosed) {
      ++taken;
      continue;
    }
    ticket->Unref();
    taken = taken_.erase(taken);
  }
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const Entry& one = *entry->second;
    const bool complete = one.owned != nullptr || !one.status.ok();
    if (one.local != nullptr && one.sent && complete && one.local->state() == Ticket::kClosed) {
      names_.erase(one.local->number());
      entry = entries_.erase(entry);
    } else {
      ++entry;
    }
  }
}

void RankedStreams::Add(std::unique_ptr<RankedStream> stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int number = stream->number();
  streams_[number] = std::move(stream);
}

RankedStream* RankedStreams::Find(int number) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = streams_.find(number);
  return found == streams_.end() ? nullptr : found->second.get();
}

void RankedStreams::Pack(std::vector<std::vector<Piece>>* to, std::shared_ptr<const void>* keeps) {
  const auto kept = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& stream : streams_) stream.second->Pack(to, kept.get());
  *keeps = kept;
}

CoreStatus RankedStreams::Unpack(const Received& keys) {
  for (std::size_t rank = 0; rank < keys.from.size(); ++rank) {
    const std::uint8_t* data = static_cast<const std::uint8_t*>(keys.from[rank].data);
    std::int64_t left = keys.from[rank].bytes;
    while (left > 0) {
      RankedStream::Head head;
      CoreStatus status;
      if (left >= static_cast<std::int64_t>(sizeof(head))) std::memcpy(&head, data, sizeof(head));
      if (left < static_cast<std::int64_t>(sizeof(head)) || head.bytes < static_cast<std::int64_t>(sizeof(head)) ||
          head.bytes > left || head.tables < 0 || head.tables > kMostTables) {
        status = Error(kE301, "rank ", rank, " sent keys whose head does not fit ", left, " bytes; restart all ranks");
      } else {
        RankedStream* const stream = Find(static_cast<int>(head.stream));
        status = stream == nullptr
                     ? Error(kE301, "rank ", rank, " sent keys of stream ", head.stream, ", which is not here")
                     : stream->Unpack(static_cast<int>(rank), head, data + sizeof(head),
                                      head.bytes - static_cast<std::int64_t>(sizeof(head)));
      }
      if (!status.ok()) return status;
      data += head.bytes;
      left -= head.bytes;
    }
  }
  return CoreStatus();
}

}  // namespace ascpipe
