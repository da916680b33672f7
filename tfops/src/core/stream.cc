#include "core/stream.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/atomics.h"
#include "core/bell.h"

namespace ascpipe {

namespace {
// Claim of a frame that is being filled: no worker has this generation, and none may claim it yet.
constexpr std::uint32_t kFilling = 0xffffffffu;
}  // namespace

Stream::Stream(std::int64_t run, int number, std::unique_ptr<Segment> segment, const RingView& ring,
               const SessionView& session, int fd, std::shared_ptr<RingBudget> budget)
    : run_(run & layout::kMostRuns),
      number_(number),
      segment_(std::move(segment)),
      ring_(ring),
      session_(session),
      gate_(std::make_shared<TicketGate>(ring, session)),
      arena_(ring.header()->arena_bytes),
      growth_(ring, session, fd, segment_->bytes(), std::move(budget)) {}

Stream::~Stream() { Stop(); }

int Stream::TableIndex(int table) const {
  for (int index = 0; index < ring_.tables(); ++index) {
    if (ring_.table(index)->table == table) return index;
  }
  return -1;
}

CoreStatus Stream::Submit(std::unique_ptr<Batch> batch, Ticket** ticket) {
  const CoreStatus status = Park(std::move(batch), ticket);
  if (!status.ok()) return status;
  // On this thread: it has the ids in its caches, and waking the pump takes longer than copying a small batch.
  if (pumping_.try_lock()) {
    std::lock_guard<std::mutex> pumping(pumping_, std::adopt_lock);
    PumpAlone();
  }
  if (FirstParked() != 0) Ring(session_.bells + layout::kBellPump);
  return status;
}

CoreStatus Stream::Park(std::unique_ptr<Batch> batch, Ticket** ticket) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_) return Error(Code::kFailedPrecondition, "the pipeline of stream ", number_, " was stopped");
  Ticket* fresh = new Ticket(TicketNumber(run_, ++sequence_), gate_);
  fresh->Ref();
  live_[fresh->number()] = fresh;
  parked_.push_back(Parked{fresh, std::move(batch)});
  Count(&ring_.header()->submitted, std::int64_t{1});
  StoreRelease(&ring_.header()->parked, static_cast<std::int64_t>(parked_.size()));
  *ticket = fresh;
  return CoreStatus();
}

CoreStatus Stream::Hold(std::int64_t number, TicketHold* hold) {
  if (RunOf(number) != run_ || SequenceOf(number) == 0) {
    return Error(Code::kFailedPrecondition, "ticket ", SequenceOf(number), " of run ", RunOf(number),
                 " is not of this pipeline (run ", run_,
                 "). A batch is fetched and trained in one run call; make the iterator after start_asc_pipeline()");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(number);
  const bool open = found != live_.end() && found->second->state() != Ticket::kClosed;
  if (!open || !found->second->TryHold()) {
    return Error(Code::kFailedPrecondition, "ticket ", SequenceOf(number), " of stream ", number_,
                 " is closed: its batch was trained, skipped or dropped. A batch is fetched and trained in one run "
                 "call; do not feed a fetched batch back through a placeholder");
  }
  *hold = TicketHold(found->second);
  return CoreStatus();
}

bool Stream::GiveBack() {
  layout::Ring* header = ring_.header();
  bool any = false;
  while (header->head < header->tail && ring_.IsFree(header->head)) {
    arena_.Free();
    StoreRelease(&header->arena_head, arena_.head());
    Exchange(&header->head, header->head + 1);  // before its frame is filled again
    any = true;
  }
  return any;
}

bool Stream::Collect() {
  std::vector<Ticket*> closed;
  std::vector<Parked> dropped;  // ids are released outside the lock
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = live_.begin(); entry != live_.end();) {
      if (entry->second->state() != Ticket::kClosed) {
        ++entry;
        continue;
      }
      closed.push_back(entry->second);
      entry = live_.erase(entry);
    }
    if (closed.empty()) return false;
    std::deque<Parked> left;
    for (Parked& parked : parked_) {
      if (parked.ticket->state() == Ticket::kClosed) {
        dropped.push_back(std::move(parked));
      } else {
        left.push_back(std::move(parked));
      }
    }
    parked_.swap(left);
    Count(&ring_.header()->dropped, static_cast<std::int64_t>(dropped.size()));
    StoreRelease(&ring_.header()->parked, static_cast<std::int64_t>(parked_.size()));
  }
  for (Ticket* ticket : closed) ticket->Unref();
  return true;
}

bool Stream::Pump() {
  std::lock_guard<std::mutex> pumping(pumping_);
  return PumpAlone();
}

bool Stream::PumpAlone() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_) return false;  // the ring may be unmapped
  }
  bool any = GiveBack();
  any = Collect() || any;
  while (true) {
    Parked* next = nullptr;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!parked_.empty()) next = &parked_.front();  // stays: Park appends, and only this thread removes
    }
    if (next == nullptr || !FillOne(next)) return any;
    any = true;
  }
}

bool Stream::FillOne(Parked* next) {
  layout::Ring* header = ring_.header();
  const std::int64_t length = FrameBytes(*next->batch);
  const std::int64_t number = header->tail;
  std::int64_t ids = 0, position = 0;
  bool framed = false;
  std::string why;
  const RingGrowth::Answer answer = growth_.Place(&arena_, length, number - header->head, &position, &why);
  if (answer == RingGrowth::kWait) return false;
  if (answer == RingGrowth::kNever) {
    next->ticket->Fail(std::move(why));
    Ring(session_.bells + layout::kBellTrainer);
  } else {
    ids = Fill(*next->batch, number, next->ticket->number(), position, length);
    framed = next->ticket->Enframe(number);
    if (framed) arena_.Take(position, length);
  }
  std::unique_ptr<Batch> done;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    done = std::move(parked_.front().batch);
    parked_.pop_front();
    if (!framed) Count(&header->dropped, std::int64_t{1});
    StoreRelease(&header->parked, static_cast<std::int64_t>(parked_.size()));
  }
  if (!framed) return true;
  Count(&header->ids, ids);
  StoreRelease(&header->arena_tail, arena_.tail());
  StoreRelease(&ring_.frame(number)->claim, 0u);  // last: a key worker that wins the claim finds all of the frame
  Exchange(&header->tail, number + 1);            // SYNC frame-published: store
  const bool may_pause = MayKeyWorkersPause();
  for (int worker = 0; worker < layout::kMaxKeyWorkers; ++worker) {
    layout::Bell* const bell = session_.bells + layout::kBellKeyWorkers + worker;
    may_pause ? RingUnlessPausing(bell) : Ring(bell);
  }
  Ring(session_.bells + layout::kBellTrainer);
  return true;
}

bool Stream::MayKeyWorkersPause() const {
  if (!local()) return training();  // an evaluation waits for its keys, training has some ahead
  // The keys of a batch have a long way before them, so a ring that has hardly any waits for none.
  return ring_.header()->tail - ring_.header()->head > ring_.header()->look_ahead;
}

std::int64_t Stream::FrameBytes(const Batch& batch) const {
  std::vector<std::int64_t> ids(ring_.tables(), 0), features(ring_.tables(), 0);
  for (const FeatureIds& feature : batch.features) {
    if (feature.table < 0) continue;
    ids[feature.table] += feature.count;
    features[feature.table] += 1;
  }
  std::int64_t bytes = ring_.tables() * static_cast<std::int64_t>(sizeof(layout::Part));
  layout::Part part;
  for (int index = 0; index < ring_.tables(); ++index) {
    bytes = layout::PlacePart(&part, ids[index], features[index], bytes);
  }
  return layout::Align(bytes);
}

std::int64_t Stream::Fill(const Batch& batch, std::int64_t number, std::int64_t ticket, std::int64_t position,
                          std::int64_t length) {
  layout::Frame* frame = ring_.frame(number);
  StoreRelease(&frame->claim, kFilling);
  frame->number = number;
  frame->ticket = ticket;
  frame->offset = ring_.header()->arena_offset + arena_.OffsetOf(position);
  frame->length = length;
  frame->timestamp = batch.timestamp;
  StoreRelease(&frame->closed, 0u);
  StoreRelease(&frame->trained, 0u);
  std::uint8_t* base = ring_.frame_base(number);
  std::vector<std::int64_t> ids(ring_.tables(), 0), features(ring_.tables(), 0);
  std::int64_t all_ids = 0;
  for (const FeatureIds& feature : batch.features) {
    if (feature.table < 0) continue;
    ids[feature.table] += feature.count;
    features[feature.table] += 1;
    all_ids += feature.count;
  }
  std::int64_t offset = ring_.tables() * static_cast<std::int64_t>(sizeof(layout::Part));
  for (int index = 0; index < ring_.tables(); ++index) {
    layout::Part* part = ring_.part(number, index);
    offset = layout::PlacePart(part, ids[index], features[index], offset);
    FillPart(batch, index, base, part);
    StoreRelease(ring_.word(index, number), static_cast<std::uint32_t>(layout::kSubmitted));
  }
  return all_ids;
}

void Stream::FillPart(const Batch& batch, int index, std::uint8_t* base, layout::Part* part) const {
  layout::Spec* spec = reinterpret_cast<layout::Spec*>(base + part->specs);
  std::int64_t* out = reinterpret_cast<std::int64_t*>(base + part->ids);
  bool weighted = false;
  for (const FeatureIds& feature : batch.features) {
    if (feature.table != index) continue;
    weighted = weighted || feature.weights != nullptr;
    *spec = layout::Spec();
    spec->count = feature.count;
    spec->rank = static_cast<std::int64_t>(feature.shape.size());
    for (std::size_t axis = 0; axis < feature.shape.size(); ++axis) spec->shape[axis] = feature.shape[axis];
    ++spec;
    if (feature.is_int32) {
      const std::int32_t* from = static_cast<const std::int32_t*>(feature.data);
      for (std::int64_t id = 0; id < feature.count; ++id) out[id] = from[id];
    } else if (feature.count > 0) {
      std::memcpy(out, feature.data, static_cast<std::size_t>(feature.count) * sizeof(std::int64_t));
    }
    out += feature.count;
  }
  if (weighted) FillWeights(batch, index, base, part);
}

void Stream::FillWeights(const Batch& batch, int index, std::uint8_t* base, layout::Part* part) const {
  part->weights = part->counts;  // which are written later, by a table worker
  std::int32_t* out = reinterpret_cast<std::int32_t*>(base + part->weights);
  for (const FeatureIds& feature : batch.features) {
    if (feature.table != index) continue;
    if (feature.weights == nullptr) {
      std::fill_n(out, feature.count, 1);
    } else if (feature.count > 0) {
      std::memcpy(out, feature.weights, static_cast<std::size_t>(feature.count) * sizeof(std::int32_t));
    }
    out += feature.count;
  }
}

std::int64_t Stream::FirstParked() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return parked_.empty() ? 0 : parked_.front().ticket->number();
}

void Stream::Stop() {
  std::unordered_map<std::int64_t, Ticket*> live;
  std::deque<Parked> parked;
  {
    std::lock_guard<std::mutex> pumping(pumping_);  // a thread that fills a frame has its batch among the parked ones
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;  // no thread pumps after this
    live.swap(live_);
    parked.swap(parked_);
    growth_.Stop();
  }
  for (auto& entry : live) entry.second->Close();
  while (!gate_->Empty()) sched_yield();  // a close is a few stores
  for (auto& entry : live) entry.second->Unref();
}

}  // namespace ascpipe
