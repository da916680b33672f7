// Threads that read the batches of one iterator.
#ifndef ASCPIPE_BRIDGE_BATCH_READER_H_
#define ASCPIPE_BRIDGE_BATCH_READER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "bridge/read_settings.h"
#include "core/read_position.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/status.h"
#include "tensorflow/core/platform/env.h"

namespace ascpipe {

// Reads the batches of one pass in order. Several threads read different batches at the same time.
class BatchReader {
 public:
  explicit BatchReader(std::shared_ptr<const ReadSettings> settings) : settings_(std::move(settings)) {}
  // Stops the threads. Each thread finishes its batch.
  ~BatchReader();

  // Returns the next batch: the dense tensors, then the indices of all sparse features, their values, and their shapes.
  // At the end of the pass, sets only `is_end`. An error concerns only one batch, so the next call returns the
  // following batch.
  //
  // The first call of Next determines the start of the pass and starts the threads. Next waits until a thread has read
  // the batch or `cancellation` is cancelled. `cancellation` may be null.
  tensorflow::Status Next(tensorflow::CancellationManager* cancellation, std::vector<tensorflow::Tensor>* batch,
                          bool* is_end);

 private:
  struct Result {
    tensorflow::Status status;
    std::vector<tensorflow::Tensor> tensors;
  };

  // Batch that a thread reads.
  struct Work {
    std::int64_t number;  // number of the batch in this iterator
    std::int64_t epoch;
    SequencePart part;
    ReadPosition after;    // position after the batch
    std::int64_t full_us;  // how long the thread has waited because read_ahead batches were read
  };

  tensorflow::Status Start();
  // Waits until the thread may read another batch. Returns false if no batch is left.
  bool TakeWork(Work* work);
  void Put(std::int64_t number, Result result);
  void Run();

  const std::shared_ptr<const ReadSettings> settings_;
  BatchPlanArguments arguments_ = {};      // arguments for this pass
  std::unique_ptr<const BatchPlan> plan_;  // plan of this pass
  std::atomic<bool> is_stopped_{false};

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool is_started_ = false;
  std::int64_t pass_ = 0;
  EpochPosition position_ = {0, 0};       // position of the next batch that a thread takes
  std::int64_t taken_ = 0;                // number of batches that threads have taken
  std::int64_t returned_ = 0;             // number of batches that Next has returned
  bool is_end_ = false;                   // no batch is left to take
  std::map<std::int64_t, Result> ready_;  // by number of the batch
  std::vector<std::unique_ptr<tensorflow::Thread>> threads_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BATCH_READER_H_
