#include "bridge/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "tensorflow/core/lib/core/threadpool.h"

namespace ascpipe {

namespace {

struct Blocks {
  std::int64_t total;
  std::int64_t block;
  const std::function<void(std::int64_t, std::int64_t)>* work;  // of the caller: gone when all are done
  std::atomic<std::int64_t> next{0};
  std::atomic<std::int64_t> done{0};

  void Take() {
    std::int64_t begin;
    while ((begin = next.fetch_add(block)) < total) {
      const std::int64_t end = std::min(total, begin + block);
      (*work)(begin, end);
      done.fetch_add(end - begin);
    }
  }
};

}  // namespace

void ShareBlocks(tensorflow::OpKernelContext* ctx, std::int64_t total, std::int64_t block,
                 const std::function<void(std::int64_t, std::int64_t)>& work) {
  const auto& pool = *ctx->device()->tensorflow_cpu_worker_threads();
  const std::int64_t helpers = std::min<std::int64_t>(pool.num_threads, (total + block - 1) / block) - 1;
  std::shared_ptr<Blocks> blocks;
  try {
    if (helpers > 0) {
      blocks = std::make_shared<Blocks>();
      blocks->total = total;
      blocks->block = block;
      blocks->work = &work;
      for (std::int64_t helper = 0; helper < helpers; ++helper) pool.workers->Schedule([blocks] { blocks->Take(); });
    }
  } catch (const std::bad_alloc&) {  // fewer helpers, then
  }
  if (blocks == nullptr) {
    if (total > 0) work(0, total);
    return;
  }
  blocks->Take();
  while (blocks->done.load() < total) sched_yield();  // a block is some ten microseconds
}

}  // namespace ascpipe
