#include "bridge/parallel.h"

#include <algorithm>
#include <memory>
#include <new>

#include "tensorflow/core/lib/core/threadpool.h"

namespace ascpipe {

void ShareBlocks(tensorflow::OpKernelContext* ctx, std::int64_t total, std::int64_t block, const Blocks::Work& work) {
  const auto& pool = *ctx->device()->tensorflow_cpu_worker_threads();
  const std::int64_t helpers = std::min<std::int64_t>(pool.num_threads, (total + block - 1) / block) - 1;
  std::shared_ptr<Blocks> blocks;
  try {
    if (helpers > 0) {
      blocks = std::make_shared<Blocks>(total, block, &work);
      for (std::int64_t helper = 0; helper < helpers; ++helper) pool.workers->Schedule([blocks] { blocks->Take(); });
    }
  } catch (const std::bad_alloc&) {  // the loop continues with fewer threads
  }
  if (blocks == nullptr) {
    if (total > 0) work(0, total);
    return;
  }
  blocks->Take();
  blocks->Await();
}

}  // namespace ascpipe
