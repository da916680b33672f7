// Interface of classes that read the records of a batch into tensors.
#ifndef ASCPIPE_BRIDGE_BATCH_SOURCE_H_
#define ASCPIPE_BRIDGE_BATCH_SOURCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "bridge/read_settings.h"
#include "core/layout.h"
#include "core/read_position.h"
#include "input/batch_plan.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Each thread must use a separate BatchSource.
class BatchSource {
 public:
  // `settings` and `is_stopped` must stay valid as long as the source exists. `plan` describes the batches of the pass.
  // Read returns early if `is_stopped` is set.
  static std::unique_ptr<BatchSource> Make(const ReadSettings& settings, const BatchPlanArguments& plan,
                                           const std::atomic<bool>* is_stopped);
  virtual ~BatchSource() = default;

  // Reads the records in `part` of an epoch into tensors. The tensors are in the same order as in BatchReader::Next.
  // `after` is the position after the batch. `counted` receives the counters and times of the batch.
  virtual tensorflow::Status Read(std::int64_t epoch, SequencePart part, const ReadPosition& after,
                                  layout::Reading* counted, std::vector<tensorflow::Tensor>* tensors) = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BATCH_SOURCE_H_
