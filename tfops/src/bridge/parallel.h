// Work that threads of TensorFlow's pool share.
#ifndef ASCPIPE_BRIDGE_PARALLEL_H_
#define ASCPIPE_BRIDGE_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "core/blocks.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Rows of so many floats that one thread moves in one go: some ten microseconds of work.
inline std::int64_t BlockRows(std::int64_t floats) {
  return std::max<std::int64_t>(16, 8192 / std::max<std::int64_t>(1, floats));
}

// Calls work(begin, end) for blocks of [0, total), on this thread and on those of the pool that are free.
//
// Not Shard: that waits for blocks which nobody has begun, and the caller is a thread of the pool itself; with
// as many callers at once as the pool has threads, all of them would wait for good.  Here the caller takes blocks
// until there are none, and waits only for those that another thread is at work on.
void ShareBlocks(tensorflow::OpKernelContext* ctx, std::int64_t total, std::int64_t block,
                 const Blocks::Work& work);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_PARALLEL_H_
