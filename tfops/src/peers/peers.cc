#include "peers/peers.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "core/error_codes.gen.h"
#include "core/late_waits.h"

namespace ascpipe {

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ProcessNs() {
  timespec time = {0, 0};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
}

}  // namespace

Peers::Peers(std::unique_ptr<Transport> transport, PeerKeys* keys, Settings settings)
    : transport_(std::move(transport)),
      keys_(keys),
      settings_(std::move(settings)),
      session_(transport_->rank(),
               {Limit(settings_.wait_timeout_s), Limit(settings_.idle_after_s), Limit(settings_.warn_after_s),
                Limit(settings_.end_after_s)},
               Clock::now()),
      awaited_(transport_->rank(), transport_->size(), Clock::now()),
      heard_(static_cast<std::size_t>(transport_->size())),
      figures_(settings_.figures, settings_.spans.get(), transport_->rank(), transport_->size()),
      signatures_(static_cast<std::size_t>(transport_->size())),
      collectives_(signatures_.size()),
      facts_(signatures_.size()) {
  // Only threads of the user's program handle signals.
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
  PeerActions actions;
  request.since = Clock::now();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    actions = session_.Enter(std::move(request), is_next);
    if (actions.empty()) changed_.notify_all();
  }
  CarryOut(std::move(actions), {});
}

void Peers::NoteChange(std::uint64_t hash) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  change_hash_ = (change_hash_ ^ hash) * 1099511628211u;
}

bool Peers::MayClaim(int stream) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return session_.MayClaim(stream);
}

CoreStatus Peers::Broken() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return session_.broken();
}

CoreStatus Peers::Poisoned() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return session_.poisoned();
}

void Peers::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    session_.Stop();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Peers::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (reply_ != nullptr && reply_->over) {
      End(&lock);
      continue;
    }
    const PeerMove move = session_.Next(Around());
    PeerActions actions;
    std::string line;
    switch (move.kind) {
      case PeerMove::Kind::kWait:
        move.until == Clock::time_point::max() ? changed_.wait(lock)
                                               : static_cast<void>(changed_.wait_until(lock, move.until));
        continue;
      case PeerMove::Kind::kSend: {
        const PeerHeader& header = session_.current().header;
        if (header.kind != PeerKind::kGate || !header.exists || !keys_->IsKnown(header)) {
          Send(&lock);
          continue;
        }
        // The keys of the gate have arrived with an earlier exchange. All ranks pass the gate without an exchange, even
        // ranks that reach it later.
        actions = session_.PassGate();
        break;
      }
      case PeerMove::Kind::kSayWait:
        line = LineOf(*move.waits);
        break;
      case PeerMove::Kind::kEndEngine:
        transport_->End();
        break;
      case PeerMove::Kind::kGiveUpExchange:
        actions = session_.GiveUp(GivenUpExchange(*move.waits), Clock::now());
        break;
      case PeerMove::Kind::kGiveUpTurn:
        actions = session_.GiveUp(GivenUpTurn(*move.waits), Clock::now());
        break;
      case PeerMove::Kind::kGiveUpStep:
        actions = session_.GiveUp(GivenUpStep(), Clock::now());
        line = session_.broken().text();
        break;
      case PeerMove::Kind::kEnd:
        actions = session_.Finish();
        break;
    }
    changed_.notify_all();
    lock.unlock();
    if (!line.empty()) SayLine("ascpipe: " + line);
    CarryOut(std::move(actions), {});
    if (move.kind == PeerMove::Kind::kEnd) return;
    lock.lock();
  }
}

PeerSession::Around Peers::Around() const {
  PeerSession::Around around;
  around.now = Clock::now();
  around.progressed = awaited_.progressed();
  if (session_.WatchesStep()) around.processor_ns = ProcessNs();
  around.has_steps = session_.is_broken() && settings_.has_steps != nullptr && settings_.has_steps();
  return around;
}

void Peers::CarryOut(PeerActions actions, const Received& rows) {
  for (PeerAction& action : actions) {
    switch (action.kind) {
      case PeerAction::Kind::kTell:
        if (action.request.done != nullptr) action.request.done(action.verdict, action.has_rows ? rows : Received());
        break;
      case PeerAction::Kind::kHear: {
        const Piece& text = rows.from[0];
        action.ask.text.assign(static_cast<const char*>(text.data), static_cast<std::size_t>(text.bytes));
        if (settings_.on_ask != nullptr) settings_.on_ask(std::move(action.ask));
        break;
      }
      case PeerAction::Kind::kClaim:
        if (settings_.on_change != nullptr) settings_.on_change();
        break;
    }
  }
}

void Peers::Send(std::unique_lock<std::mutex>* lock) {
  const auto reply = std::make_shared<Reply>();
  reply_ = reply;
  lock->unlock();
  PeerRequest& request = session_.current();
  const Clock::time_point begin = Clock::now();
  const std::int64_t busy_us = figures_.Begin(request.header, begin);
  if (!request.was_sent) {
    request.since = begin;
    request.busy_us = busy_us;
  }
  request.was_sent = true;
  PeerHeader sent = request.header;
  sent.busy_us = request.busy_us;
  Parcel parcel = Pack(request, &sent);
  figures_.Sent(parcel.sizes);
  const std::shared_ptr<Meeting> meeting = meeting_;
  transport_->Start(std::move(parcel), [meeting, reply](const CoreStatus& status, Parcel received) {
    std::lock_guard<std::mutex> lock(meeting->mutex);
    reply->status = status;
    reply->parcel = std::move(received);
    reply->over = true;
    meeting->changed.notify_all();
  });
  lock->lock();
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
  // Limits the bytes that each rank receives, and leaves space for keys.
  const std::int64_t most = kMostParcelBytes / size() / 2;
  for (const std::vector<Piece>& pieces : request.rows) {
    if (BytesOf(pieces) <= most) continue;
    sent->cause = Text("it would send ", BytesOf(pieces), " bytes of rows to one rank, at most ", most,
                       " can be sent: make batches smaller, or more ranks");
    sections.rows.assign(ranks, {});
    break;
  }
  return MakeMessages(*sent, sections, &buffer_);
}

void Peers::End(std::unique_lock<std::mutex>* lock) {
  const std::shared_ptr<Reply> reply = std::move(reply_);
  if (session_.is_late()) {
    session_.EndLate(!reply->status.ok() || AllHaveEnded(reply->parcel));
    return;
  }
  lock->unlock();
  figures_.End(reply->parcel.sizes, Clock::now());
  Messages messages;
  PeerVerdict verdict;
  bool others_know = !reply->status.ok();  // the transport has ended on all ranks
  const CoreStatus why = others_know ? reply->status : Read(reply->parcel, &messages, &verdict, &others_know);
  PeerActions actions;
  lock->lock();
  for (std::size_t from = 0; rank() == 0 && from < messages.answers.size(); ++from) {
    heard_[from] += messages.answers[from];
  }
  const Clock::time_point now = Clock::now();
  if (why.ok()) {
    awaited_.Hear(messages.headers, now);
    actions = session_.Conclude(messages.headers, verdict, now);
  } else {
    actions = session_.Fail(Ended(why), others_know, now);
  }
  changed_.notify_all();
  lock->unlock();
  CarryOut(std::move(actions), messages.rows);
  lock->lock();
}

// Reads the messages of all ranks. Returns an error if this rank must stop exchanging messages. Sets *others_know if
// the other ranks have the same error.
CoreStatus Peers::Read(const Parcel& parcel, Messages* messages, PeerVerdict* verdict, bool* others_know) {
  const CoreStatus status = ReadMessages(parcel, size(), sequence_, messages);
  if (!status.ok()) return status;
  Learn(*messages);
  figures_.Compare(messages->headers);
  *verdict = Decide(messages->headers);
  Explain(verdict);
  const std::string difference = Difference(messages->headers, *verdict);
  const CoreStatus unpacked = keys_->Unpack(messages->keys);
  *others_know = !difference.empty();
  if (difference.empty()) return unpacked;
  // Report the difference instead of an error caused by the difference, such as keys that cannot be read.
  return Error(kE313, "the ranks differ: ", difference,
               ". Nothing of this step was trained. All ranks run the same "
               "program with the same arguments");
}

}  // namespace ascpipe
