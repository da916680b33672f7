// Work that threads of TensorFlow's pool share.
#ifndef ASCPIPE_BRIDGE_PARALLEL_H_
#define ASCPIPE_BRIDGE_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "core/blocks.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Rows of `floats` floats that one thread moves as one block: about ten microseconds of work.
inline std::int64_t BlockRows(std::int64_t floats) {
  return std::max<std::int64_t>(16, 8192 / std::max<std::int64_t>(1, floats));
}

// Calls work(begin, end) for blocks of [0, total), on this thread and on those of the pool that are free.
//
// Not Shard: Shard waits for blocks that no thread has begun, and the caller is itself a thread of the pool.  With as
// many callers as the pool has threads, it deadlocks.  Here the caller takes blocks until there are none left, and
// waits only for blocks that another thread is working on.
void ShareBlocks(tensorflow::OpKernelContext* ctx, std::int64_t total, std::int64_t block, const Blocks::Work& work);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PARALLEL_H_
