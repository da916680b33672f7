#include "bridge/batch_source.h"

#include "bridge/record_batch.h"
#include "bridge/row_batch.h"

namespace ascpipe {

std::unique_ptr<BatchSource> BatchSource::Make(const ReadSettings& settings, const BatchPlanArguments& plan,
                                               const std::atomic<bool>* is_stopped) {
  if (settings.row_groups != nullptr) {
    return std::unique_ptr<BatchSource>(new RowBatch(settings, plan, is_stopped));
  }
  return std::unique_ptr<BatchSource>(new RecordBatch(settings, plan));
}

}  // namespace ascpipe
