// Position of a dataset that reads files of training data.
#ifndef ASCPIPE_CORE_READ_POSITION_H_
#define ASCPIPE_CORE_READ_POSITION_H_

#include <cstdint>

namespace ascpipe {

// The position after a batch. Each iterator of a dataset is a pass over the epochs of the dataset.
struct ReadPosition {
  std::int64_t source = 0;  // number of the dataset in this process; 0: the batch has no position
  std::int64_t pass = 0;
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  // records of the epoch that all ranks together have read
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_READ_POSITION_H_
