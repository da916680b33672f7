#include "bridge/ranks.h"

#include <cstdlib>

namespace ascpipe {

std::shared_ptr<const Asking> Ranks::Ask(std::int64_t number, AskPhase phase, const std::string& text) {
  const auto asking = std::make_shared<Asking>();
  const auto kept = std::make_shared<const std::string>(Text(number, " ", text));
  PeerRequest request;
  request.header.kind = PeerKind::kAsk;
  request.header.phase = phase;
  request.rows.assign(static_cast<std::size_t>(size()), {{kept->data(), static_cast<std::int64_t>(kept->size())}});
  request.keeps = kept;
  const bool changes = phase == AskPhase::kChange;
  request.done = [this, number, changes, asking](const PeerVerdict& verdict, const Received&) {
    // Before the next exchange, in which the others say that they have made it.
    if (changes && verdict.kind == VerdictKind::kAsked) peers_.NoteChange(static_cast<std::uint64_t>(number));
    asking->End(verdict);
    if (settings_.peers.on_change != nullptr) settings_.peers.on_change();
  };
  peers_.Exchange(std::move(request));
  return asking;
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
  for (int rank = 1; rank < size(); ++rank) {
    const std::string heard = peers_.TakeAnswers(rank);
    for (std::size_t begin = 0, end; begin < heard.size(); begin = end + 1) {
      end = heard.find('\n', begin);
      const std::size_t space = heard.find(' ', begin);
      answers_[std::strtoll(heard.c_str() + begin, nullptr, 10)][rank] = heard.substr(space + 1, end - space - 1);
    }
  }
  const auto found = answers_.find(number);
  if (found == answers_.end() || static_cast<int>(found->second.size()) < size() - 1) return false;
  answers->assign(1, "");
  for (const auto& answer : found->second) answers->push_back(answer.second);
  answers_.erase(answers_.begin(), std::next(found));  // none is left of what was asked for earlier
  return true;
}

}  // namespace ascpipe
