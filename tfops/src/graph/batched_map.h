// Converts the function of a dataset map. The original function processes one element, and the new function processes a
// batch of elements.
#ifndef ASCPIPE_GRAPH_BATCHED_MAP_H_
#define ASCPIPE_GRAPH_BATCHED_MAP_H_

#include <string>
#include <vector>

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Returns true if the function parses one record.
bool ParsesRecord(const tensorflow::FunctionDef& function);

struct BatchedMap {
  std::string function;  // name of the new function in the library; empty if there is none
  std::string reason;    // reason why there is no new function
  std::string each;      // types of the ops that the new function runs for each element of a batch
};

// Adds a function to `library`. The new function returns the results of `function` for a batch of elements. The first
// `ranks.size()` arguments are the components of an element; ranks[i] is the number of dimensions of component i.
// Later arguments are captured inputs, equal for all elements. `shapes` are the shapes of the results for one element.
BatchedMap BatchMap(const std::string& function, const std::vector<int>& ranks,
                    const std::vector<tensorflow::PartialTensorShape>& shapes,
                    tensorflow::FunctionLibraryDefinition* library);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_BATCHED_MAP_H_
