// Positions from which the iterators of datasets start to read.
#ifndef ASCPIPE_BRIDGE_READ_STARTS_H_
#define ASCPIPE_BRIDGE_READ_STARTS_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "core/read_position.h"

namespace ascpipe {

// The first iterator of a dataset after a restore starts at the restored position. Every later iterator of the dataset
// starts a new pass. An iterator gets its position at the first batch, because a program may create the iterator before
// it restores a checkpoint. The methods are thread-safe.
class ReadStarts {
 public:
  static ReadStarts* Get();

  // Sets the position at which the next iterator of the dataset `position.source` starts.
  void Restore(const ReadPosition& position);
  // Removes restored positions that no iterator has taken.
  void Forget();
  ReadPosition Take(std::int64_t source);

 private:
  struct Next {
    ReadPosition at;
    bool is_restored;
  };

  std::mutex mutex_;
  std::map<std::int64_t, Next> next_;  // by source; a missing source starts with pass 0
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_STARTS_H_
