#include "bridge/ranks.h"

#include <pthread.h>

namespace ascpipe {

namespace {

constexpr std::int64_t kUnitNs = 10000000;  // a thread that only waits needs minutes to use this much CPU time
constexpr char kNotDone[] = "{\"what\": \"\", \"done\": false}";

}  // namespace

int WorkClocks::Begin() {
  clockid_t clock;
  if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return 0;
  std::lock_guard<std::mutex> lock(mutex_);
  clocks_[++last_] = clock;
  begun_ns_[last_] = TimeOf(clock);
  return last_;
}

void WorkClocks::End(int number) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = clocks_.find(number);
  if (found == clocks_.end()) return;
  ended_ns_ += TimeOf(found->second) - begun_ns_[number];
  clocks_.erase(found);
  begun_ns_.erase(number);
}

std::int64_t WorkClocks::Units() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::int64_t all = ended_ns_;
  for (const auto& one : clocks_) all += TimeOf(one.second) - begun_ns_.at(one.first);
  return all / kUnitNs;
}

std::int64_t WorkClocks::TimeOf(clockid_t clock) {
  timespec time = {0, 0};
  if (clock_gettime(clock, &time) != 0) return 0;
  return time.tv_sec * std::int64_t{1000000000} + time.tv_nsec;
}

std::shared_ptr<Asking> Ranks::Ask(std::int64_t number, AskPhase phase, const std::string& text) {
  const auto asking = std::make_shared<Asking>();
  const auto kept = std::make_shared<const std::string>(text);
  PeerRequest request;
  request.header.kind = PeerKind::kAsk;
  request.header.phase = phase;
  request.header.ticket = number;
  request.rows.assign(static_cast<std::size_t>(size()), {{kept->data(), static_cast<std::int64_t>(kept->size())}});
  request.keeps = kept;
  const bool changes = phase == AskPhase::kChange;
  request.done = [this, number, changes, asking](const PeerVerdict& verdict, const Received&) {
    // Record the change before the next exchange, because the other ranks report their changes in that exchange.
    if (changes && verdict.kind == VerdictKind::kAsked) peers_.NoteChange(static_cast<std::uint64_t>(number));
    if (asking->End(verdict)) Drop(number, changes);
    if (settings_.peers.on_change != nullptr) settings_.peers.on_change();
  };
  peers_.Exchange(std::move(request));
  return asking;
}

void Ranks::Abandon(std::int64_t number, bool changes, Asking* asking) {
  DropAnswers(number);
  if (asking->Abandon()) Drop(number, changes);
}

void Ranks::Drop(std::int64_t number, bool changes) {
  if (changes) peers_.NoteChange(~static_cast<std::uint64_t>(number));
  Ask(number, AskPhase::kEnd, kNotDone);
}

std::shared_ptr<const Asking> Ranks::BeginLook() {
  const auto asking = std::make_shared<Asking>();
  PeerRequest request;
  request.header.kind = PeerKind::kIdle;
  request.done = [asking](const PeerVerdict& verdict, const Received&) { asking->End(verdict); };
  {
    std::lock_guard<std::mutex> lock(mutex_);
    look_ = asking;
  }
  peers_.Exchange(std::move(request));
  return asking;
}

bool Ranks::TakeAnswers(std::int64_t number, std::vector<std::string>* answers) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (int rank = 1; rank < size(); ++rank) answers_.Hear(rank, peers_.TakeAnswers(rank));
  return answers_.Take(number, size(), answers);
}

void Ranks::DropAnswers(std::int64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  answers_.Drop(number);
}

}  // namespace ascpipe
