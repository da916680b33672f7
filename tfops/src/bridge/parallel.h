// Parallel loops on TensorFlow's thread pool.
#ifndef ASCPIPE_BRIDGE_PARALLEL_H_
#define ASCPIPE_BRIDGE_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "core/blocks.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Returns the number of rows in one block, if each row has `floats` floats. A block is about 10 us of work.
inline std::int64_t BlockRows(std::int64_t floats) {
  return std::max<std::int64_t>(16, 8192 / std::max<std::int64_t>(1, floats));
}

// Calls work(begin, end) for blocks of [0, total), on this thread and on free threads of the pool.
//
// TensorFlow's Shard waits for blocks that no thread has started, and deadlocks if all threads of the pool call Shard.
// The caller of ShareBlocks processes blocks until none is left, and then waits only for blocks that other threads are
// processing.
void ShareBlocks(tensorflow::OpKernelContext* ctx, std::int64_t total, std::int64_t block, const Blocks::Work& work);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PARALLEL_H_
