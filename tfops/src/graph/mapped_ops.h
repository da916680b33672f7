// Ops of a dataset map that still process one element at a time after the map was converted to process batches.
#ifndef ASCPIPE_GRAPH_MAPPED_OPS_H_
#define ASCPIPE_GRAPH_MAPPED_OPS_H_

#include <functional>
#include <vector>

#include "graph/step_graph.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace ascpipe {

class MappedOps {
 public:
  using IsBatched = std::function<bool(const Port&)>;

  // `nodes` are the ops to move, in topological order. `body` is the graph of the function that contains the ops.
  // `batch` is a batched argument of the function.
  MappedOps(tensorflow::Graph* body, const Port& batch, const Nodes& nodes)
      : body_(body), batch_(batch), nodes_(nodes) {}

  // Adds a result of the function: either an output of one of the moved ops, or a value that is equal for all elements.
  void AddResult(tensorflow::Node* result, const tensorflow::PartialTensorShape& shape);

  // Moves the ops into a function in `library`, and adds a MapDefun op that calls this function for each element.
  tensorflow::Status Write(const IsBatched& is_batched, tensorflow::FunctionLibraryDefinition* library);

 private:
  void FindInputs(const IsBatched& is_batched);
  tensorflow::Status WriteFunction(tensorflow::FunctionLibraryDefinition* library, tensorflow::NameAttrList* function);

  tensorflow::Graph* const body_;
  const Port batch_;
  const Nodes nodes_;
  Nodes results_;
  std::vector<tensorflow::PartialTensorShape> shapes_;
  std::vector<Port> elements_;  // batched values that the ops read
  std::vector<Port> captured_;  // values that the ops read, and that are the same for all elements
};

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_MAPPED_OPS_H_
