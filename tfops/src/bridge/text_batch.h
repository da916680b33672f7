// Parser of batches of text records (CSV, TSV).
#ifndef ASCPIPE_BRIDGE_TEXT_BATCH_H_
#define ASCPIPE_BRIDGE_TEXT_BATCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "bridge/batch_parser.h"
#include "input/csv_parser.h"
#include "tensorflow/core/framework/types.h"

namespace ascpipe {

// Parse returns one tensor of shape [records] per column.
class TextBatchParser : public BatchParser {
 public:
  // `buckets[i]` is the number of hash buckets of column i, or a special value of ExampleFeatures.
  TextBatchParser(std::unique_ptr<const CsvParser> parser, std::vector<std::int64_t> buckets)
      : parser_(std::move(parser)), buckets_(std::move(buckets)) {}

  tensorflow::Status Parse(const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                           const OnUnfit& on_unfit, std::vector<tensorflow::Tensor>* tensors) const override;

 private:
  const std::unique_ptr<const CsvParser> parser_;
  const std::vector<std::int64_t> buckets_;
};

// Returns the tensor type of a column that is not hashed.
tensorflow::DataType TensorTypeOf(CsvType type);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_TEXT_BATCH_H_
