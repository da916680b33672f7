// Interface of batch parsers, which convert the bytes of records to tensors.
#ifndef ASCPIPE_BRIDGE_BATCH_PARSER_H_
#define ASCPIPE_BRIDGE_BATCH_PARSER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "input/wire.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Several threads may call const methods at the same time.
class BatchParser {
 public:
  // Function that is called if record number `record` of the batch does not have the features of the dataset. `why` is
  // the reason. If OnUnfit returns OK, the parser skips the record. If OnUnfit returns an error, Parse returns this
  // error.
  using OnUnfit = std::function<tensorflow::Status(std::size_t record, const std::string& why)>;

  virtual ~BatchParser() = default;

  // Parses a batch. Numeric tensors are allocated with `allocator`. The tensors do not contain skipped records.
  virtual tensorflow::Status Parse(const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                                   const OnUnfit& on_unfit, std::vector<tensorflow::Tensor>* tensors) const = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BATCH_PARSER_H_
