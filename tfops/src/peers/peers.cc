#include "peers/peers.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t HashOf(const std::string& text) {
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  return hash;
}

std::int64_t BytesOf(const std::vector<Piece>& pieces) {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

std::uint8_t* Put(const std::vector<Piece>& pieces, std::uint8_t* out) {
  const std::uint8_t* const begin = out;
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) std::memcpy(out, piece.data, static_cast<std::size_t>(piece.bytes));
    out += piece.bytes;
  }
  return out + (FilledUp(out - begin) - (out - begin));
}

PeerVerdict Failure(const PeerRequest& request, std::string cause) {
  const bool half = request.header.kind == PeerKind::kBackward;
  return {half ? VerdictKind::kPoison : VerdictKind::kFail, 0, std::move(cause)};
}

}  // namespace

Peers::Peers(std::unique_ptr<Transport> transport, PeerKeys* keys, Settings settings)
    : transport_(std::move(transport)),
      keys_(keys),
      settings_(std::move(settings)),
      signature_(settings_.signature),
      signatures_(static_cast<std::size_t>(transport_->size())) {
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

Peers::~Peers() { Stop(0); }

void Peers::Exchange(PeerRequest request) { Enter(std::move(request), false); }

void Peers::ExchangeNext(PeerRequest request) { Enter(std::move(request), true); }

void Peers::Enter(PeerRequest request, bool is_next) {
  PeerVerdict refused;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (broken_.ok() && poisoned_.ok() && !stop_) {
      is_next ? queue_.push_front(std::move(request)) : queue_.push_back(std::move(request));
      changed_.notify_all();
      return;
    }
    refused = Failure(request, !poisoned_.ok() ? poisoned_.text() : !broken_.ok() ? broken_.text()
                                                                                  : "the pipeline was stopped");
  }
  request.done(refused, {});
}

void Peers::NoteChange(std::uint64_t hash) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++changes_;
  change_hash_ = (change_hash_ ^ hash) * 1099511628211u;
}

void Peers::SetSignature(std::string signature) {
  std::lock_guard<std::mutex> lock(mutex_);
  signature_ = std::move(signature);
}

void Peers::HasSaved() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    saving_ = false;
    changed_.notify_all();
  }
  if (settings_.on_change != nullptr) settings_.on_change();
}

bool Peers::MayClaim(int stream) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return !saving_ && (turn_ < 0 || turn_ == stream);
}

CoreStatus Peers::Broken() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return broken_;
}

CoreStatus Peers::Poisoned() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return poisoned_;
}

PeerFigures Peers::figures() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return figures_;
}

void Peers::Stop(int timeout_ms) {
  if (timeout_ms > 0) {
    const auto left = std::make_shared<std::pair<std::mutex, bool>>();
    PeerRequest request;
    request.header.kind = PeerKind::kLeave;
    request.done = [this](const PeerVerdict&, const Received&) {
      std::lock_guard<std::mutex> lock(mutex_);
      left_ = true;
      changed_.notify_all();
    };
    Exchange(std::move(request));
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return left_; });
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

// The next request whose turn it is; false: the thread ends.
bool Peers::Next(PeerRequest* request) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (stop_) return false;
    const auto next = std::find_if(queue_.begin(), queue_.end(), [this](const PeerRequest& one) {
      return turn_ < 0 || !one.header.has_batch() || one.header.stream == turn_;
    });
    if (next != queue_.end() && !saving_) {
      *request = std::move(*next);
      queue_.erase(next);
      return true;
    }
    if (late_ != nullptr && late_->over && late_->status.ok()) {
      // Other ranks may wait for this one.
      late_ = nullptr;
      *request = PeerRequest();
      request->header.kind = PeerKind::kBroken;
      request->header.cause = broken_.text();
      request->done = [](const PeerVerdict&, const Received&) {};
      return true;
    }
    changed_.wait(lock);
  }
}

void Peers::Run() {
  PeerRequest request;
  while (Next(&request)) {
    PeerHeader sent = request.header;
    const auto answer = std::make_shared<Answer>();
    const Clock::time_point begin = Clock::now();
    Parcel parcel = Pack(request, &sent);
    std::int64_t bytes = 0;
    for (const std::int64_t size : parcel.sizes) bytes += size;
    transport_->Start(std::move(parcel), [this, answer](const CoreStatus& status, Parcel received) {
      std::lock_guard<std::mutex> lock(mutex_);
      answer->status = status;
      answer->parcel = std::move(received);
      answer->over = true;
      changed_.notify_all();
    });
    if (request.header.kind == PeerKind::kBroken) {
      late_ = answer;
      continue;
    }
    if (!Await(answer)) {
      late_ = answer;
      Break(GivenUp(request.header), &request);
      continue;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ++figures_.exchanges;
      figures_.bytes_sent += bytes;
      for (const std::int64_t size : answer->parcel.sizes) figures_.bytes_received += size;
      figures_.waited_us += std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
    }
    if (answer->status.ok()) {
      Conclude(std::move(request), answer->parcel, sent);
    } else {
      Break(answer->status, &request);
    }
  }
  FailAll(PeerVerdict{VerdictKind::kFail, 0, "the pipeline was stopped"});
}

CoreStatus Peers::GivenUp(const PeerHeader& header) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stop_) return Error(Code::kCancelled, "the pipeline was stopped");
  }
  const std::string batch = header.has_batch() ? Text(" batch ", header.ticket) : "";
  return Error(kE310, "rank ", rank(), " ", NameOf(header.kind), batch, " and has waited ", settings_.wait_timeout_s,
               " s for the other ranks: one of them is stopped, late or does something else. What was saved is whole; "
               "restart all ranks from the last checkpoint, or raise wait_timeout_s");
}

// Waits for the end of an exchange; false: its time is over, or the pipeline stops.
bool Peers::Await(const std::shared_ptr<Answer>& answer) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(settings_.wait_timeout_s),
                    [&] { return stop_ || answer->over; });
  return answer->over;
}

Parcel Peers::Pack(const PeerRequest& request, PeerHeader* sent) {
  const std::size_t ranks = static_cast<std::size_t>(size());
  std::vector<std::vector<Piece>> keys(ranks), rows = request.rows;
  rows.resize(ranks);
  std::shared_ptr<const void> keeps;
  keys_->Pack(&keys, &keeps);
  std::string signature;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    signature = signature_;
    sent->changes = changes_;
    sent->change_hash = change_hash_;
  }
  sent->sequence = ++sequence_;
  sent->signature = HashOf(signature);
  const bool says = sequence_ == 1 || signature != signature_sent_;
  signature_sent_ = signature;
  Parcel parcel;
  std::int64_t all = 0;
  std::vector<SectionSizes> sizes(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    sizes[rank] = {says ? static_cast<std::int64_t>(signature.size()) : 0, BytesOf(keys[rank]), BytesOf(rows[rank])};
    parcel.sizes.push_back(kHeaderBytes + FilledUp(sizes[rank].signature) + FilledUp(sizes[rank].keys) +
                           FilledUp(sizes[rank].rows));
    all += parcel.sizes.back();
  }
  // The memory of the exchange before, where the transport is done with it: new pages cost more than the copy.
  if (buffer_ == nullptr || buffer_.use_count() > 1) buffer_ = std::make_shared<std::vector<std::uint8_t>>();
  if (static_cast<std::int64_t>(buffer_->size()) < all) buffer_->resize(static_cast<std::size_t>(all + all / 4));
  parcel.bytes = buffer_;
  std::uint8_t* out = buffer_->data();
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    WriteHeader(*sent, sizes[rank], out);
    out += kHeaderBytes;
    if (says) out = Put({{signature.data(), static_cast<std::int64_t>(signature.size())}}, out);
    out = Put(keys[rank], out);
    out = Put(rows[rank], out);
  }
  return parcel;
}

CoreStatus Peers::Read(const Parcel& parcel, const PeerHeader& sent, std::vector<PeerHeader>* headers, Received* keys,
                       Received* rows) {
  const std::uint8_t* at = parcel.bytes->data();
  std::int64_t left = static_cast<std::int64_t>(parcel.bytes->size());
  keys->keeps = rows->keeps = parcel.bytes;
  for (std::size_t rank = 0; rank < parcel.sizes.size(); ++rank) {
    PeerHeader header;
    SectionSizes sizes;
    if (parcel.sizes[rank] > left) return Error(kE301, "the messages are longer than their memory");
    const CoreStatus status = ReadHeader(at, parcel.sizes[rank], &header, &sizes);
    if (!status.ok()) return Error(kE301, "what rank ", rank, " sent is damaged: ", status.text());
    if (header.sequence != sent.sequence) {
      return Error(kE301, "rank ", rank, " makes exchange ", header.sequence, ", this rank ", sent.sequence);
    }
    const std::uint8_t* section = at + kHeaderBytes;
    if (sizes.signature > 0) {
      signatures_[rank].assign(reinterpret_cast<const char*>(section), static_cast<std::size_t>(sizes.signature));
    }
    section += FilledUp(sizes.signature);
    keys->from.push_back({section, sizes.keys});
    rows->from.push_back({section + FilledUp(sizes.keys), sizes.rows});
    headers->push_back(std::move(header));
    at += parcel.sizes[rank];
    left -= parcel.sizes[rank];
  }
  return CoreStatus();
}

// The first line in which two ranks differ.
std::string Peers::SignatureDifference() const {
  for (std::size_t rank = 1; rank < signatures_.size(); ++rank) {
    std::istringstream first(signatures_[0]), other(signatures_[rank]);
    while (first.good() || other.good()) {
      std::string a, b;
      std::getline(first, a);
      std::getline(other, b);
      if (a != b) {
        return Text("all ranks run the same program with the same tables, but rank 0 has [", a, "] and rank ", rank,
                    " [", b, "]");
      }
    }
  }
  return "";
}

void Peers::Conclude(PeerRequest request, const Parcel& parcel, const PeerHeader& sent) {
  std::vector<PeerHeader> headers;
  Received keys, rows;
  const CoreStatus status = Read(parcel, sent, &headers, &keys, &rows);
  if (!status.ok()) {
    Break(status, &request);
    return;
  }
  const PeerVerdict verdict = Decide(headers);
  const bool differ = std::any_of(headers.begin(), headers.end(),
                                  [&](const PeerHeader& h) { return h.signature != headers[0].signature; });
  if (differ && verdict.kind != VerdictKind::kLeft) {  // what came is not to be read as if it were alike
    Break(Error(Code::kFailedPrecondition, SignatureDifference()), &request);
    return;
  }
  const CoreStatus unpacked = keys_->Unpack(keys);
  if (!unpacked.ok()) {
    Break(unpacked, &request);
    return;
  }
  std::vector<PeerRequest> aside;
  bool again = false, freed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    freed = turn_ >= 0;
    turn_ = verdict.kind == VerdictKind::kTurn ? verdict.stream : -1;
    if (verdict.kind == VerdictKind::kPoison && poisoned_.ok()) poisoned_ = Error(kE311, "the tables are half-way through a step: ", verdict.cause, ". What was saved is whole; restart all ranks from the last checkpoint");
    const PeerHeader& mine = request.header;
    if (verdict.kind == VerdictKind::kTurn) {
      // Claims of other streams are put aside, also those that were not sent yet.
      for (auto one = queue_.begin(); one != queue_.end();) {
        const bool claims = one->header.kind == PeerKind::kForward || one->header.kind == PeerKind::kRead;
        if (claims && one->header.stream != turn_) {
          aside.push_back(std::move(*one));
          one = queue_.erase(one);
        } else {
          ++one;
        }
      }
      again = mine.kind == PeerKind::kGate || mine.stream == turn_;
    } else if (verdict.kind == VerdictKind::kSaved) {
      again = mine.kind != PeerKind::kSave && mine.kind != PeerKind::kForward;
      saving_ = rank() != 0 && settings_.on_save != nullptr;
    }
    if (again) queue_.push_front(std::move(request));
  }
  if (verdict.kind == VerdictKind::kSaved && rank() != 0 && settings_.on_save != nullptr) {
    settings_.on_save(std::string(static_cast<const char*>(rows.from[0].data),
                                  static_cast<std::size_t>(rows.from[0].bytes)));
  }
  if (!again) request.done(verdict, rows);
  for (PeerRequest& one : aside) one.done(verdict, {});
  if (freed && settings_.on_change != nullptr) settings_.on_change();
  if (verdict.kind == VerdictKind::kPoison) FailAll(verdict);
}

void Peers::Break(const CoreStatus& why, PeerRequest* request) {
  const PeerVerdict verdict = Failure(*request, why.text());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (broken_.ok()) broken_ = why;
    if (verdict.kind == VerdictKind::kPoison && poisoned_.ok()) poisoned_ = why;
  }
  request->done(verdict, {});
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
