// Reads and parses the records of a batch.
#ifndef ASCPIPE_BRIDGE_RECORD_BATCH_H_
#define ASCPIPE_BRIDGE_RECORD_BATCH_H_

#include <cstdint>
#include <vector>

#include "bridge/batch_source.h"
#include "bridge/read_settings.h"
#include "core/layout.h"
#include "core/read_position.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

class RecordBatch : public BatchSource {
 public:
  RecordBatch(const ReadSettings& settings, const BatchPlanArguments& plan)
      : settings_(settings), plan_(plan), reader_(*settings.records) {}

  tensorflow::Status Read(std::int64_t epoch, SequencePart part, const ReadPosition& after, layout::Reading* counted,
                          std::vector<tensorflow::Tensor>* tensors) override;

 private:
  // Reads the records into records_. Removes the numbers of skipped damaged records from numbers_.
  tensorflow::Status ReadRecords();
  // Reads each record alone, and skips damaged records.
  tensorflow::Status ReadGoodRecords();

  const ReadSettings& settings_;
  const BatchPlan plan_;
  RecordSetReader reader_;
  std::vector<std::int64_t> numbers_;
  std::vector<ByteRange> records_;         // one record for each number
  std::vector<std::vector<char>> copies_;  // copies of records that were read alone
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RECORD_BATCH_H_
