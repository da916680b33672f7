// Parser of batches of tf.train.Example records.
#ifndef ASCPIPE_BRIDGE_EXAMPLE_BATCH_H_
#define ASCPIPE_BRIDGE_EXAMPLE_BATCH_H_

#include <memory>
#include <vector>

#include "bridge/batch_parser.h"
#include "bridge/example_columns.h"
#include "input/example_parser.h"

namespace ascpipe {

// Parse returns the dense tensors, then the indices of all sparse features, their values, and their shapes.
class ExampleBatchParser : public BatchParser {
 public:
  explicit ExampleBatchParser(ExampleFeatures features);

  tensorflow::Status Parse(const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                           const OnUnfit& on_unfit, std::vector<tensorflow::Tensor>* tensors) const override;

 private:
  // Parses a batch with TensorFlow's parser.
  tensorflow::Status ParseUnusual(const std::vector<ByteRange>& records, const OnUnfit& on_unfit,
                                  tensorflow::example::Result* result) const;

  const ExampleFeatures features_;
  std::unique_ptr<const ExampleParser> common_;  // null: the common form does not support the features
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_EXAMPLE_BATCH_H_
