#include "bridge/read_starts.h"

#include <iterator>

namespace ascpipe {

ReadStarts* ReadStarts::Get() {
  static ReadStarts* const starts = new ReadStarts;  // threads of iterators may outlive static objects
  return starts;
}

void ReadStarts::Restore(const ReadPosition& position) {
  std::lock_guard<std::mutex> lock(mutex_);
  next_[position.source] = {position, true};
}

void ReadStarts::Forget() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = next_.begin(); entry != next_.end();) {
    entry = entry->second.is_restored ? next_.erase(entry) : std::next(entry);
  }
}

ReadPosition ReadStarts::Take(std::int64_t source) {
  std::lock_guard<std::mutex> lock(mutex_);
  Next& next = next_[source];
  ReadPosition start = next.at;
  start.source = source;
  next.at = ReadPosition();
  next.at.pass = start.pass + 1;
  next.is_restored = false;
  return start;
}

}  // namespace ascpipe
