// Reads the rows of a batch from Parquet files.
#ifndef ASCPIPE_BRIDGE_ROW_BATCH_H_
#define ASCPIPE_BRIDGE_ROW_BATCH_H_

#include <atomic>
#include <vector>

#include "bridge/batch_source.h"
#include "core/layout.h"
#include "input/row_group_reader.h"

namespace ascpipe {

class RowBatch : public BatchSource {
 public:
  RowBatch(const ReadSettings& settings, const BatchPlanArguments& plan, const std::atomic<bool>* is_stopped)
      : settings_(settings), reader_(settings.row_groups, plan, is_stopped) {}

  tensorflow::Status Read(std::int64_t epoch, SequencePart part, const ReadPosition& after, layout::Reading* counted,
                          std::vector<tensorflow::Tensor>* tensors) override;

 private:
  tensorflow::Status Gather(const std::vector<RowRun>& rows, const ReadPosition& after, layout::Reading* counted,
                            std::vector<tensorflow::Tensor>* tensors) const;

  const ReadSettings& settings_;
  RowGroupReader reader_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_BATCH_H_
