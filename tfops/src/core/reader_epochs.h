// Epoch-based reclamation: epochs of the threads that read rows of a table in place (docs/internals/adr/0045).
#ifndef ASCPIPE_CORE_READER_EPOCHS_H_
#define ASCPIPE_CORE_READER_EPOCHS_H_

#include <cstdint>
#include <mutex>
#include <set>

#include "core/atomics.h"
#include "core/layout.h"

namespace ascpipe {

// Active readers of one kind: evaluations, or saves and loads. ReaderEpochs announces the lowest epoch of the active
// readers.
class ReaderEpochs {
 public:
  ReaderEpochs(layout::DiskTable* table, int reader) : table_(table), announced_(&table->readers[reader]) {}

  // Adds a reader and returns its epoch. Call Begin before reading the locations of rows.
  std::int64_t Begin() {
    std::lock_guard<std::mutex> lock(mutex_);
    const std::int64_t epoch = LoadAcquire(&table_->epoch);  // SYNC epoch: load
    epochs_.insert(epoch);
    Announce();
    return epoch;
  }

  // Removes a reader. Call End when the reader has finished reading rows.
  void End(std::int64_t epoch) {
    std::lock_guard<std::mutex> lock(mutex_);
    epochs_.erase(epochs_.find(epoch));
    Announce();
  }

 private:
  void Announce() {
    Exchange(announced_, epochs_.empty() ? std::int64_t{0} : *epochs_.begin());
  }  // SYNC epoch-announced: store

  layout::DiskTable* const table_;
  std::int64_t* const announced_;
  std::mutex mutex_;
  std::multiset<std::int64_t> epochs_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_READER_EPOCHS_H_
