// Reads and parses the records of a batch.
#ifndef ASCPIPE_BRIDGE_RECORD_BATCH_H_
#define ASCPIPE_BRIDGE_RECORD_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bridge/read_settings.h"
#include "core/layout.h"
#include "core/read_position.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Each thread has an object of its own.
class RecordBatch {
 public:
  // `settings` must exist as long as the object.
  explicit RecordBatch(const ReadSettings& settings) : settings_(settings), reader_(*settings.records) {}

  // Reads the records with these numbers into tensors, in the order of BatchReader::Next. `after` is the position after
  // the batch. Counts the batch.
  tensorflow::Status Read(const std::vector<std::int64_t>& numbers, const ReadPosition& after,
                          std::vector<tensorflow::Tensor>* tensors);

 private:
  tensorflow::Status ReadAndParse(const std::vector<std::int64_t>& numbers, const ReadPosition& after,
                                  layout::Reading* counted, std::vector<tensorflow::Tensor>* tensors);
  // Sets records_ and numbers_.
  tensorflow::Status ReadRecords(const std::vector<std::int64_t>& numbers);
  // Reads each record alone, and skips damaged records.
  tensorflow::Status ReadGoodRecords(const std::vector<std::int64_t>& numbers);
  // Skips a record that does not fit, or returns the error.
  tensorflow::Status OnUnfit(std::int64_t number, const std::string& why) const;
  void Skip(std::int64_t number, const std::string& why) const;

  const ReadSettings& settings_;
  RecordSetReader reader_;
  std::vector<std::int64_t> numbers_;
  std::vector<ByteRange> records_;         // the record with each number
  std::vector<std::vector<char>> copies_;  // of records that were read alone
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RECORD_BATCH_H_
