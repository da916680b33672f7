#include "peers/peers.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

using Clock = std::chrono::steady_clock;

PeerVerdict Failure(const PeerRequest& request, std::string cause) {
  const bool half = request.header.kind == PeerKind::kBackward;
  return {half ? VerdictKind::kPoison : VerdictKind::kFail, 0, std::move(cause)};
}

// Whether what sends it has the lease; a step that has failed has given it back.
bool HasLease(const PeerHeader& header) {
  return header.cause.empty() && (header.kind == PeerKind::kForward || header.kind == PeerKind::kRead);
}

}  // namespace

Peers::Peers(std::unique_ptr<Transport> transport, PeerKeys* keys, Settings settings)
    : transport_(std::move(transport)),
      keys_(keys),
      settings_(std::move(settings)),
      heard_(static_cast<std::size_t>(transport_->size())),
      awaited_(transport_->rank(), transport_->size(), Clock::now()),
      figures_(settings_.figures, settings_.spans.get(), transport_->rank(), transport_->size()),
      signatures_(static_cast<std::size_t>(transport_->size())),
      collectives_(signatures_.size()),
      facts_(signatures_.size()),
      quiet_(Clock::now()) {
  // Signals are for the threads of the user's program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "asc-peers");
    Run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Peers::~Peers() { Stop(); }

void Peers::Exchange(PeerRequest request) { Enter(std::move(request), false); }

void Peers::ExchangeNext(PeerRequest request) { Enter(std::move(request), true); }

void Peers::Enter(PeerRequest request, bool is_next) {
  PeerVerdict refused;
  request.since = Clock::now();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool goes_on = broken_.ok() && poisoned_.ok() && !stop_;
    if (goes_on && paused_ && Yields(request)) {
      refused.kind = VerdictKind::kAsked;
    } else if (goes_on && turn_ >= 0 && HasLease(request.header) && request.header.stream != turn_) {
      refused = {VerdictKind::kTurn, turn_, ""};  // it was claimed before that was known
    } else if (goes_on) {
      is_next ? queue_.push_front(std::move(request)) : queue_.push_back(std::move(request));
      changed_.notify_all();
      return;
    }
    if (refused.kind != VerdictKind::kAsked && refused.kind != VerdictKind::kTurn) {
      if (request.header.kind == PeerKind::kBackward && poisoned_.ok()) {
        poisoned_ = Error(kE311, "the tables are half-way through a step: ",
                          broken_.ok() ? "the pipeline was stopped" : broken_.text());
      }
      refused = Failure(request, !poisoned_.ok() ? poisoned_.text() : !broken_.ok() ? broken_.text()
                                                                                    : "the pipeline was stopped");
    }
  }
  request.done(refused, {});
}

void Peers::NoteChange(std::uint64_t hash) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  change_hash_ = (change_hash_ ^ hash) * 1099511628211u;
}

bool Peers::MayClaim(int stream) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !paused_ && (turn_ < 0 || turn_ == stream);
}

CoreStatus Peers::Broken() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return broken_;
}

CoreStatus Peers::Poisoned() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return poisoned_;
}

void Peers::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// Whether it is a request's turn.
bool Peers::MayBeSent(const PeerRequest& request) const {
  const PeerHeader& header = request.header;
  if (paused_) return false;
  if (owes_) return header.kind == PeerKind::kBackward || header.kind == PeerKind::kLeave;
  return turn_ < 0 || !header.has_batch() || header.stream == turn_;
}

// Whether other ranks are to learn that this one is broken, and the exchange before is over.
bool Peers::SaysBroken() {
  if (!others_wait_ || (late_ != nullptr && !late_->over)) return false;
  others_wait_ = late_ == nullptr || (late_->status.ok() && !AllHaveEnded(late_->parcel));
  return others_wait_;
}

// The next request whose turn it is; false: the thread ends.
bool Peers::Next(PeerRequest* request) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (EndsEngine()) {
      engine_ended_ = true;
      transport_->End();
    }
    const auto next = std::find_if(queue_.begin(), queue_.end(), [this](const PeerRequest& o) { return MayBeSent(o); });
    if (next != queue_.end()) {
      *request = std::move(*next);
      queue_.erase(next);
      const PeerHeader& header = request->header;
      if (header.kind != PeerKind::kGate || !header.exists || !keys_->IsKnown(header)) return true;
      // The keys came since with the exchange of another thread; ranks whose thread was later pass their gate as well.
      lock.unlock();
      request->done({VerdictKind::kBegin, header.stream, ""}, {});
      *request = PeerRequest();
      lock.lock();
    } else if (SaysBroken()) {
      *request = PeerRequest();
      request->header.kind = PeerKind::kBroken;
      request->header.cause = broken_.text();
      return true;
    } else if (turn_ < 0 || queue_.empty() || owes_) {
      PeerHeader pulse;
      if (!AwaitPulse(&lock, &pulse)) continue;
      *request = PeerRequest();
      request->header = pulse;
      request->done = [](const PeerVerdict&, const Received&) {};
      return true;
    } else if (changed_.wait_until(lock, turned_ + Limit(settings_.wait_timeout_s)) == std::cv_status::timeout &&
               !stop_ && turn_ >= 0 && !queue_.empty() &&
               std::none_of(queue_.begin(), queue_.end(), [this](const PeerRequest& o) { return MayBeSent(o); })) {
      PeerRequest waits = std::move(queue_.front());
      queue_.pop_front();
      const int stream = turn_;
      turn_ = -1;
      lock.unlock();
      Break(Error(kE310, "rank ", rank(), " ", NameOf(waits.header.kind), " batch ", waits.header.ticket, " of stream ",
                  waits.header.stream, ", rank 0 one of stream ", stream, ", which rank ", rank(), " has not begun in ",
                  settings_.wait_timeout_s, " s. What was saved is whole; all ranks train, and all ranks evaluate or predict"),
            std::move(waits), true);
      lock.lock();
    }
  }
  return false;
}

void Peers::Run() {
  while (true) {
    PeerRequest request;
    if (!Next(&request)) break;
    PeerHeader sent = request.header;
    const auto reply = std::make_shared<Reply>();
    const Clock::time_point begin = Clock::now();
    const std::int64_t busy_us = figures_.Begin(sent, begin);
    if (!request.was_sent) {
      request.since = begin;
      request.busy_us = busy_us;
    }
    request.was_sent = true;
    sent.busy_us = request.busy_us;
    Send(request, &sent, reply);
    if (request.header.kind == PeerKind::kBroken) {
      late_ = reply;
      continue;
    }
    if (!Await(request, reply)) {
      late_ = reply;
      GiveUp(std::move(request));
      continue;
    }
    quiet_ = Clock::now();
    figures_.End(reply->parcel.sizes, Clock::now());
    if (reply->status.ok()) {
      Conclude(std::move(request), reply->parcel, sent);
    } else {
      Break(Ended(reply->status), std::move(request), false);  // the transport has ended on all ranks
    }
  }
  FailAll(PeerVerdict{VerdictKind::kFail, 0, "the pipeline was stopped"});
}

void Peers::Send(const PeerRequest& request, PeerHeader* sent, const std::shared_ptr<Reply>& reply) {
  Parcel parcel = Pack(request, sent);
  figures_.Sent(parcel.sizes);
  const std::shared_ptr<Meeting> meeting = meeting_;
  transport_->Start(std::move(parcel), [meeting, reply](const CoreStatus& status, Parcel received) {
    std::lock_guard<std::mutex> lock(meeting->mutex);
    reply->status = status;
    reply->parcel = std::move(received);
    reply->over = true;
    meeting->changed.notify_all();
  });
}

Parcel Peers::Pack(const PeerRequest& request, PeerHeader* sent) {
  const std::size_t ranks = static_cast<std::size_t>(size());
  Sections sections;
  sections.keys.resize(ranks);
  sections.rows = request.rows;
  sections.rows.resize(ranks);
  std::shared_ptr<const void> keeps;
  keys_->Pack(request.header, &sections.keys, &keeps);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (rank() != 0) sections.answer.swap(answers_);
    sent->changes = changes_;
    sent->change_hash = change_hash_;
  }
  if (settings_.work != nullptr) sent->work = settings_.work();
  sent->machine = machine_;
  sent->pid = getpid();
  sent->sequence = ++sequence_;
  sent->signature = HashOf(settings_.signature);
  if (!has_signed_) sections.signature = settings_.signature + kSignatureEnd + settings_.collectives;
  has_signed_ = true;
  if (request.facts != nullptr) sent->facts = HashOf(*request.facts);
  if (request.facts != nullptr && facts_sent_.insert(sent->facts).second) sections.facts = *request.facts;
  const std::int64_t most = kMostParcelBytes / size() / 2;  // so that no rank gets more either, and keys have room
  for (const std::vector<Piece>& pieces : request.rows) {
    if (BytesOf(pieces) <= most) continue;
    sent->cause = Text("it would send ", BytesOf(pieces), " bytes of rows to one rank, at most ", most,
                       " can be sent: make batches smaller, or more ranks");
    sections.rows.assign(ranks, {});
    break;
  }
  return MakeMessages(*sent, sections, &buffer_);
}

void Peers::Conclude(PeerRequest request, const Parcel& parcel, const PeerHeader& sent) {
  Messages messages;
  const CoreStatus status = ReadMessages(parcel, size(), sent.sequence, &messages);
  if (!status.ok()) {
    Break(status, std::move(request), true);
    return;
  }
  Learn(messages);
  const std::vector<PeerHeader>& headers = messages.headers;
  figures_.Compare(headers);
  PeerVerdict verdict = Decide(headers);
  Explain(&verdict);
  const std::string difference = Difference(headers, verdict);
  if (rank() == 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t rank = 0; rank < heard_.size(); ++rank) heard_[rank] += messages.answers[rank];
  }
  const CoreStatus unpacked = keys_->Unpack(messages.keys);
  if (!difference.empty()) {  // that says more than what it leads to, as keys that cannot be read
    Break(Error(kE313, "the ranks differ: ", difference, ". Nothing of this step was trained. All ranks run the same "
                "program with the same arguments"), std::move(request), false);
    return;
  }
  if (!unpacked.ok()) {
    Break(unpacked, std::move(request), true);
    return;
  }
  std::vector<PeerRequest> aside;
  const PeerHeader& ask = headers[0];
  const bool begins = verdict.kind == VerdictKind::kAsked &&
                      (ask.phase == AskPhase::kSave || ask.phase == AskPhase::kChange);
  const bool asked = verdict.kind == VerdictKind::kAsked && rank() != 0, pauses = begins && rank() != 0;
  bool again = false, freed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    freed = turn_ >= 0;
    turn_ = verdict.kind == VerdictKind::kTurn ? verdict.stream : -1;
    turned_ = Clock::now();
    if (verdict.kind != VerdictKind::kAgain) owes_ = verdict.kind == VerdictKind::kGo && request.has_backward;
    if (verdict.kind == VerdictKind::kGo) BeginStep(request);
    awaited_.Hear(headers, Clock::now());
    if (verdict.kind == VerdictKind::kPoison && poisoned_.ok()) {
      poisoned_ = CoreStatus(kE311.code, verdict.cause);
    }
    const PeerHeader& mine = request.header;
    if (pauses) paused_ = true;
    if (pauses) changes_tables_ = ask.phase == AskPhase::kChange;
    if (begins) open_.insert(ask.ticket);
    if (verdict.kind == VerdictKind::kAsked && ask.phase == AskPhase::kEnd) open_.erase(ask.ticket);
    if (verdict.kind == VerdictKind::kTurn || pauses) {
      // Claims that must let others pass are put aside, also those that were not sent yet.
      for (auto one = queue_.begin(); one != queue_.end();) {
        if (pauses ? Yields(*one) : HasLease(one->header) && one->header.stream != turn_) {
          aside.push_back(std::move(*one));
          one = queue_.erase(one);
        } else {
          ++one;
        }
      }
    }
    if (verdict.kind == VerdictKind::kTurn) {
      again = mine.kind == PeerKind::kGate || mine.stream == turn_;
    } else if (verdict.kind == VerdictKind::kAsked) {
      again = mine.kind != PeerKind::kAsk && !mine.is_pulse() && !(pauses && Yields(request));
    } else if (verdict.kind == VerdictKind::kAgain) {
      again = !mine.is_pulse();
    }
    if (again) queue_.push_front(std::move(request));
    changed_.notify_all();
  }
  if (asked && settings_.on_ask != nullptr) {
    const Piece& text = messages.rows.from[0];
    settings_.on_ask({ask.phase, ask.ticket,
                      std::string(static_cast<const char*>(text.data), static_cast<std::size_t>(text.bytes))});
  }
  if (!again) request.done(verdict, messages.rows);
  for (PeerRequest& one : aside) one.done(verdict, {});
  if (freed && settings_.on_change != nullptr) settings_.on_change();
  if (verdict.kind == VerdictKind::kPoison) FailAll(verdict);
}

// `others_wait`: they have to be told, when the exchange before is over.
void Peers::Break(const CoreStatus& why, PeerRequest request, bool others_wait) {
  const PeerVerdict verdict = Failure(request, why.text());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (broken_.ok()) broken_since_ = Clock::now();
    if (broken_.ok()) broken_ = why;
    if (verdict.kind == VerdictKind::kPoison && poisoned_.ok()) poisoned_ = why;
    others_wait_ = others_wait;
    owes_ = false;
    turn_ = -1;
    paused_ = changes_tables_ = false;
    open_.clear();
    changed_.notify_all();
  }
  request.done(verdict, {});
  FailAll({VerdictKind::kFail, 0, why.text()});
}

void Peers::FailAll(const PeerVerdict& verdict) {
  std::deque<PeerRequest> waiting;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting.swap(queue_);
  }
  for (PeerRequest& request : waiting) request.done(Failure(request, verdict.cause), {});
}

}  // namespace ascpipe
