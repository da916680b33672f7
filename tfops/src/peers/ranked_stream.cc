#include "peers/ranked_stream.h"

#include <algorithm>

#include "core/atomics.h"
#include "core/error_codes.gen.h"
#include "core/part_view.h"

namespace ascpipe {

namespace {

constexpr int kMostBatches = 8;  // maximum per message, so that a step does not wait for the keys of many other batches

}  // namespace

struct RankedStream::Entry {
  Ticket* local = nullptr;  // owns one reference; null: not submitted by this rank yet
  bool sent = false;
  ReadPosition read;  // position of the dataset after the batch
  std::vector<RowShares> shares;
  std::vector<Asked> asked;  // by rank
  Ticket* owned = nullptr;   // owns one reference
  TicketHold hold;           // ticket hold of `owned`, until Take is called
  CoreStatus status;         // reason why `owned` is null although all ranks have sent their keys

  ~Entry() {
    hold = TicketHold();
    if (owned != nullptr) owned->Unref();
    if (local != nullptr) local->Unref();
  }
};

RankedStream::RankedStream(int number, Stream* local, Stream* owned, int rank, int ranks)
    : number_(number),
      local_(local),
      owned_(owned),
      rank_(rank),
      ranks_(ranks),
      newest_(static_cast<std::size_t>(ranks)) {}

RankedStream::~RankedStream() {
  for (auto& taken : taken_) taken.second.second->Unref();
}

std::int64_t RankedStream::NewRun() {
  std::lock_guard<std::mutex> lock(mutex_);
  return ++runs_;
}

CoreStatus RankedStream::Submit(std::int64_t run, std::unique_ptr<Batch> batch, Ticket** ticket) {
  // Submit while holding the lock, so that names and tickets have the same order.
  std::lock_guard<std::mutex> lock(mutex_);
  const ReadPosition read = batch->read;
  const CoreStatus status = local_->Submit(std::move(batch), ticket);
  if (!status.ok()) return status;
  const BatchName name = {run, ++submitted_[run]};
  std::unique_ptr<Entry>& entry = entries_[name];
  if (entry == nullptr) entry.reset(new Entry);
  entry->read = read;
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

// Returns true if the keys of a batch are deduplicated, or if they will never be deduplicated. `frame` is the frame
// number of the batch, or another state of the batch's ticket.
bool RankedStream::IsDeduplicated(std::int64_t frame) const {
  if (frame < 0) return frame != Ticket::kParked;
  for (int index = 0; index < local_->ring().tables(); ++index) {
    if (LoadAcquire(local_->ring().word(index, frame)) != layout::kDeduped) return false;  // SYNC deduplicated: load
  }
  return true;
}

bool RankedStream::IsReady(std::int64_t local) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = names_.find(local);
  if (found == names_.end() || entries_.at(found->second)->sent) return true;
  // Batches are sent in order, so all earlier batches must be deduplicated, too. A slower key worker may still process
  // an earlier batch.
  for (const BatchName& name : unsent_) {
    if (!IsDeduplicated(entries_.at(name)->local->state())) return false;
    if (name == found->second) break;
  }
  return true;
}

bool RankedStream::IsKnown(const BatchName& name) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end() || found->second->asked.empty()) return false;
  return std::all_of(found->second->asked.begin(), found->second->asked.end(), [](const Asked& a) { return a.came; });
}

// Finds the distinct keys of the batch that belong to each owner.
CoreStatus RankedStream::Deal(Entry* entry, std::vector<FrameKeys>* keys) const {
  for (int index = 0; index < local_->ring().tables(); ++index) {
    const PartView part(local_->ring(), entry->local->record(), index);
    const std::int64_t count = LoadAcquire(&part.shared().unique_count);
    if (count < 0 || count > part.ids()) {
      return Error(kE301, "a batch of stream ", number_, " has ", count, " distinct ids of ", part.ids(), " of table ",
                   index, ". The record is damaged; restart all ranks");
    }
    const std::int64_t* const first = part.array<std::int64_t>(&layout::Part::unique);
    std::vector<std::int64_t>& owners = entry->shares[static_cast<std::size_t>(index)].owners;
    owners.assign(1, 0);
    for (int owner = 0; owner < ranks_; ++owner) {
      const std::int64_t* const next = std::partition_point(
          first + owners.back(), first + count, [&](std::int64_t key) { return OwnerOf(key, ranks_) <= owner; });
      owners.push_back(next - first);
    }
    owners.back() = count;  // send all keys even if they are out of order: an owner then returns an error
    keys->push_back({first, part.array<std::int32_t>(&layout::Part::occurrences), &owners});
  }
  return CoreStatus();
}

void RankedStream::Pack(const BatchName& until, std::vector<std::vector<Piece>>* to,
                        std::vector<std::shared_ptr<const void>>* keeps) {
  std::lock_guard<std::mutex> lock(mutex_);
  Clear();
  for (int batches = 0; !unsent_.empty(); unsent_.pop_front()) {
    const BatchName name = unsent_.front();
    if (batches == kMostBatches && until < name) return;
    Entry* const entry = entries_.at(name).get();
    const auto hold = std::make_shared<TicketHold>();
    if (entry->local->TryHold()) *hold = TicketHold(entry->local);  // keeps its frame while the message is built
    const std::int64_t frame = hold->get() == nullptr ? Ticket::kClosed : entry->local->state();
    if (!IsDeduplicated(frame)) return;  // batches are sent in order, so later batches wait for this batch
    entry->shares.resize(static_cast<std::size_t>(local_->ring().tables()));
    std::vector<FrameKeys> keys;
    if (frame >= 0) entry->status = Deal(entry, &keys);
    const bool closed = frame < 0 || !entry->status.ok();
    entry->sent = true;
    if (!closed && batches < kMostBatches) ++batches;
    const std::int64_t timestamp = closed ? 0 : entry->local->record().frame.timestamp;
    PutAsked({0, number_, name.run, name.index, timestamp, 0, local_->ring().tables(), entry->read.Fingerprint()},
             closed ? nullptr : &keys, to, keeps);
    keeps->push_back(hold);
  }
}

CoreStatus RankedStream::Unpack(int from, const AskedHead& head, const std::uint8_t* data, std::int64_t bytes) {
  Asked asked;
  const CoreStatus status =
      ReadAsked(head, data, bytes, {from, rank_, ranks_, number_, local_->ring().tables()}, &asked);
  if (!status.ok()) return status;
  std::lock_guard<std::mutex> lock(mutex_);
  const BatchName name = {head.run, head.index};
  std::int64_t& newest = newest_[static_cast<std::size_t>(from)];
  newest = std::max(newest, head.run);
  std::unique_ptr<Entry>& entry = entries_[name];
  if (entry == nullptr) entry.reset(new Entry);
  entry->asked.resize(static_cast<std::size_t>(ranks_));
  Asked& mine = entry->asked[static_cast<std::size_t>(from)];
  if (mine.came) {
    return Error(kE301, "rank ", from, " sent the keys of batch ", head.index,
                 " twice. The batch was not taken, and "
                 "nothing else is lost; restart all ranks");
  }
  mine = std::move(asked);
  if (std::all_of(entry->asked.begin(), entry->asked.end(), [](const Asked& one) { return one.came; })) {
    Complete(name, entry.get());
  }
  return CoreStatus();
}

namespace {

// Batch with the keys that all ranks request from this rank. Each table has one feature, with the keys in rank order.
class AskedBatch : public Batch {
 public:
  std::vector<std::vector<std::int64_t>> keys;
  std::vector<std::vector<std::int32_t>> weights;
};

}  // namespace

// Submits a batch to the owned ring after all ranks have sent their keys.
void RankedStream::Complete(const BatchName& name, Entry* entry) {
  if (!entry->status.ok()) return;  // this rank failed to send its keys
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!entry->asked[static_cast<std::size_t>(rank)].closed) continue;
    entry->status = Error(Code::kFailedPrecondition, "rank ", rank, " has dropped batch ", name.index, " of stream ",
                          number_, " (iterator ", name.run,
                          "), which other ranks may still train: all ranks take and "
                          "skip the same batches. No table has changed by it");
    return;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    if (entry->asked[static_cast<std::size_t>(rank)].position == entry->read.Fingerprint()) continue;
    entry->status = Error(kE313, "rank ", rank, " reads batch ", name.index, " of stream ", number_,
                          " at another position of its files than rank ", rank_, ", which is after ",
                          entry->read.consumed, " records of epoch ", entry->read.epoch, " (pass ", entry->read.pass,
                          "). The batches could have the same records, so no table has changed by them. Let all ranks "
                          "restore the checkpoint, or broadcast variables before the first batch, and let all ranks "
                          "take the same batches");
    return;
  }
  std::unique_ptr<AskedBatch> batch(new AskedBatch);
  const std::size_t tables = static_cast<std::size_t>(local_->ring().tables());
  batch->keys.resize(tables);
  batch->weights.resize(tables);
  entry->shares.resize(tables);
  batch->read = entry->read;
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
  for (Asked& asked : entry->asked) {  // free the memory
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
  if (entries_.at(name)->owned == nullptr && entries_.at(name)->status.ok()) {
    return Error(Code::kInternal, "batch ", name.index, " of stream ", number_, " is taken before its keys came");
  }
  const std::unique_ptr<Entry> entry = std::move(entries_.at(name));
  entries_.erase(name);
  names_.erase(named);
  if (!entry->status.ok()) return entry->status;
  const auto made = std::make_shared<RankedBatch>();
  made->name = name;
  made->local = local;
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

// Removes taken batches whose owned ticket is closed. Also removes the entries of batches whose keys will be neither
// sent nor received any more.
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
  // A rank that has sent a batch of a newer iterator sends no more batches of an older iterator.
  const std::int64_t begun = *std::min_element(newest_.begin(), newest_.end());
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const Entry& one = *entry->second;
    const bool never = entry->first.run < begun;
    const bool complete = one.owned != nullptr || !one.status.ok();
    const bool is_over =
        one.local == nullptr ? never : one.sent && (complete || never) && one.local->state() == Ticket::kClosed;
    if (!is_over) {
      ++entry;
      continue;
    }
    if (one.local != nullptr) names_.erase(one.local->number());
    entry = entries_.erase(entry);
  }
}

}  // namespace ascpipe
