// Tensors that ParseExample returns, filled from records in the common form.
#ifndef ASCPIPE_BRIDGE_EXAMPLE_COLUMNS_H_
#define ASCPIPE_BRIDGE_EXAMPLE_COLUMNS_H_

#include <vector>

#include "input/example_parser.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace ascpipe {

// Parses a batch on the threads of TensorFlow's pool. `parser` reads the features of `config`: first `config.dense`,
// then `config.sparse`. No dense feature has a variable length. Returns false if a record is unusual. `result` is then
// undefined.
bool ParseCommonForm(tensorflow::OpKernelContext* ctx, const ExampleParser& parser,
                     const tensorflow::example::FastParseExampleConfig& config, const tensorflow::Tensor& serialized,
                     tensorflow::example::Result* result);

// Returns the features that `config` reads, or an empty vector if ParseCommonForm does not support `config`.
std::vector<WantedFeature> CommonFeatures(const tensorflow::example::FastParseExampleConfig& config);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_EXAMPLE_COLUMNS_H_
