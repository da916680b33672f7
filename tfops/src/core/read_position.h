// Position of a dataset that reads files of training data.
#ifndef ASCPIPE_CORE_READ_POSITION_H_
#define ASCPIPE_CORE_READ_POSITION_H_

#include <cstdint>

#include "core/splitmix.h"

namespace ascpipe {

// Position after a batch. Each iterator of a dataset makes one pass over the epochs of the dataset.
struct ReadPosition {
  ReadPosition() = default;
  ReadPosition(std::int64_t of_source, std::int64_t of_pass, std::int64_t of_epoch, std::int64_t of_consumed)
      : source(of_source), pass(of_pass), epoch(of_epoch), consumed(of_consumed) {}

  std::int64_t source = 0;  // number of the dataset in this process; 0: the batch has no position
  std::int64_t pass = 0;
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  // records of the epoch that all ranks together have read

  // Returns a hash of the position. Equal positions have the same hash in all processes. Returns 0 if there is no
  // position.
  std::int64_t Fingerprint() const {
    if (source == 0) return 0;
    std::uint64_t mixed = 1;
    for (const std::int64_t part : {pass, epoch, consumed}) {
      mixed = Mix((mixed ^ static_cast<std::uint64_t>(part)) + kGolden);
    }
    return static_cast<std::int64_t>(mixed | 1);
  }
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_READ_POSITION_H_
