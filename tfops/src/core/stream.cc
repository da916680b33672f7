#include "core/stream.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/atomics.h"
#include "core/bell.h"

namespace ascpipe {

void Batch::Append(int table, std::vector<std::int64_t> ids) {
  appended_.emplace_back();
  appended_.back().weights.assign(ids.size(), 0);
  appended_.back().ids = std::move(ids);
  FeatureIds feature;
  feature.data = appended_.back().ids.data();
  feature.is_int32 = false;
  feature.count = static_cast<std::int64_t>(appended_.back().ids.size());
  feature.table = table;
  feature.weights = appended_.back().weights.data();
  feature.is_appended = true;
  features.push_back(std::move(feature));
}

Stream::Stream(std::int64_t run, int number, std::unique_ptr<Segment> segment, const RingView& ring,
               const SessionView& session, int fd, std::shared_ptr<RingBudget> budget)
    : run_(run & layout::kMostRuns),
      number_(number),
      segment_(std::move(segment)),
      ring_(ring),
      session_(session),
      gate_(std::make_shared<TicketGate>(ring, session)),
      arena_(ring.opened().arena_bytes),
      growth_(ring, session, fd, segment_->bytes(), std::move(budget)) {}

Stream::~Stream() { Stop(); }

int Stream::TableIndex(int table) const {
  for (int index = 0; index < ring_.tables(); ++index) {
    if (ring_.table_number(index) == table) return index;
  }
  return -1;
}

CoreStatus Stream::Submit(std::unique_ptr<Batch> batch, Ticket** ticket) {
  const CoreStatus status = Park(std::move(batch), ticket);
  if (!status.ok()) return status;
  // The submitting thread fills the frame, because the caches of its processor contain the ids. For a small batch,
  // waking the pump thread would take longer than copying the ids.
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
  const bool is_first = batch->source != source_;
  const Open open = is_first || cycles_.Any() ? OpenBatches() : Open{sequence_ + 1, 0};
  if (is_first) cycles_.Drop(open.last);  // batches that an iterator has read ahead are dropped with the iterator
  source_ = batch->source;
  CyclePlace cycle = cycles_.Pass(sequence_ + 1, open.first, batch.get());
  std::unique_ptr<FrameRecord> record = LayOut(*batch);
  record->cycle = std::move(cycle);
  record->read = batch->read;
  Ticket* fresh = new Ticket(TicketNumber(run_, ++sequence_), gate_);
  fresh->Ref();
  live_[fresh->number()] = fresh;
  record->frame.ticket = fresh->number();
  parked_.push_back(Parked{fresh, std::move(batch), std::move(record)});
  Count(&ring_.header()->submitted, std::int64_t{1});
  StoreRelease(&ring_.header()->parked, static_cast<std::int64_t>(parked_.size()));
  *ticket = fresh;
  return CoreStatus();
}

void Stream::Accumulate(int table, std::int64_t steps) {
  std::lock_guard<std::mutex> lock(mutex_);
  cycles_.SetSteps(table, steps);
}

void Stream::BeganAfter(std::int64_t batches) {
  std::lock_guard<std::mutex> lock(mutex_);
  cycles_.SetBefore(batches, OpenBatches().last);
  trained_before_ = batches - LoadAcquire(&ring_.header()->trained);
  trained_position_ = ReadPosition();
}

void Stream::BeganAt(const ReadPosition& position) {
  std::lock_guard<std::mutex> lock(mutex_);
  trained_position_ = position;
}

void Stream::BeganWith(int table, std::vector<std::int64_t> keys) {
  std::lock_guard<std::mutex> lock(mutex_);
  cycles_.SetIds(table, OpenBatches().last, std::move(keys));
}

std::int64_t Stream::TrainedBatches() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return trained_before_ + LoadAcquire(&ring_.header()->trained);
}

void Stream::CountTrained(const FrameRecord& record) {
  if (Exchange(&ring_.frame(record.frame.number)->trained, 1u) != 0) return;
  FetchAdd(&ring_.header()->trained, std::int64_t{1});
  std::lock_guard<std::mutex> lock(mutex_);
  trained_position_ = record.read;
}

ReadPosition Stream::TrainedPosition() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return trained_position_;
}

bool Stream::IsOfBefore(std::int64_t ticket, std::int64_t steps) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return cycles_.IsOfBefore(SequenceOf(ticket), steps);
}

Stream::Open Stream::OpenBatches() const {
  Open open = {sequence_ + 1, 0};
  for (const auto& entry : live_) {
    if (entry.second->state() == Ticket::kClosed) continue;
    open.first = std::min(open.first, SequenceOf(entry.first));
    open.last = std::max(open.last, SequenceOf(entry.first));
  }
  return open;
}

CoreStatus Stream::Hold(std::int64_t number, TicketHold* hold) {
  if (RunOf(number) != run_ || SequenceOf(number) == 0) {
    return Error(
        Code::kFailedPrecondition, "ticket ", SequenceOf(number), " of run ", RunOf(number),
        " is not of this pipeline (run ", run_,
        "). A batch is fetched and trained in one run call; make the iterator after the start of the pipeline");
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
  cycles_.Use(SequenceOf(number));
  return CoreStatus();
}

bool Stream::GiveBack() {
  layout::Ring* header = ring_.header();
  bool any = false;
  while (ring_.head() < ring_.tail() && ring_.IsFree(ring_.head())) {
    arena_.Free();
    StoreRelease(&header->arena_head, arena_.head());
    ring_.SetHead(ring_.head() + 1);
    Exchange(&header->head, ring_.head());  // published before the freed frame is filled again
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
      if (!parked_.empty()) next = &parked_.front();  // stays valid, because Park appends and only this thread removes
    }
    if (next == nullptr || !FillOne(next)) return any;
    any = true;
  }
}

bool Stream::FillOne(Parked* next) {
  layout::Ring* header = ring_.header();
  const std::int64_t length = next->record->frame.length;
  const std::int64_t number = ring_.tail();
  std::int64_t ids = 0, position = 0;
  bool framed = false;
  std::string why;
  const RingGrowth::Answer answer = growth_.Place(&arena_, length, number - ring_.head(), &position, &why);
  if (answer == RingGrowth::kWait) return false;
  if (answer == RingGrowth::kNever) {
    next->ticket->Fail(std::move(why));
    Ring(session_.bells + layout::kBellTrainer);
  } else {
    next->record->frame.number = number;
    next->record->frame.offset = ring_.opened().arena_offset + arena_.OffsetOf(position);
    for (const layout::Part& part : next->record->parts) ids += part.id_count;
    Fill(*next->batch, *next->record);
    framed = next->ticket->Enframe(std::move(next->record));
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
  ring_.SetTail(number + 1);
  StoreRelease(&ring_.frame(number)->claim, 0u);  // last, so that a key worker that wins the claim sees the whole frame
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
  if (!local()) return training();  // an evaluation waits for its keys; training has batches in advance
  // The ranks exchange the keys of a batch after the key workers of the local ring have processed the batch. Therefore
  // key workers must not pause if a local ring is nearly empty.
  return ring_.tail() - ring_.head() > ring_.opened().look_ahead;
}

std::int64_t Stream::FirstParked() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return parked_.empty() ? 0 : parked_.front().ticket->number();
}

void Stream::Stop() {
  std::unordered_map<std::int64_t, Ticket*> live;
  std::deque<Parked> parked;
  {
    std::lock_guard<std::mutex> pumping(pumping_);  // a thread that fills a frame uses a batch in parked_
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
