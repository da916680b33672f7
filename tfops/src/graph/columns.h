// Static shapes in the graph of one step, and columns that ops cut out of a matrix.
#ifndef ASCPIPE_GRAPH_COLUMNS_H_
#define ASCPIPE_GRAPH_COLUMNS_H_

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "graph/step_graph.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"

namespace ascpipe {
namespace step {

// Static shapes of outputs. The shape of a node is inferred at the first query. The shape of a node is unknown if the
// node was added after the Shapes object was created.
class Shapes {
 public:
  explicit Shapes(const tensorflow::Graph& graph)
      : graph_(graph), seen_(static_cast<std::size_t>(graph.num_node_ids())) {}

  // Reads the dimensions of a tensor. An unknown dimension is -1. Returns false if the number of dimensions is unknown.
  bool Read(const Port& port, Numbers* dims) const;
  bool IsMatrix(const Port& port) const;
  // Returns the number of columns of a matrix, or -1 if the number is unknown or the tensor is not a matrix.
  std::int64_t Columns(const Port& port) const;

 private:
  void Infer(const tensorflow::Node* asked) const;
  std::int64_t InferColumns(const Port& port) const;

  const tensorflow::Graph& graph_;
  mutable std::vector<bool> seen_;  // by node
  mutable std::unique_ptr<tensorflow::ShapeRefiner> refiner_;
  mutable std::map<std::pair<const tensorflow::Node*, int>, std::int64_t> columns_;  // cache, by port
};

// The columns that a Slice op, or one output of a SplitV op, cuts out of a matrix.
struct Columns {
  Port whole;
  tensorflow::Node* cut = nullptr;
  std::int64_t begin = 0, count = 0;
};

// Returns true if a tensor consists of whole columns that a Slice or SplitV op (the cut) has cut out of a matrix. The
// tensor may be reshaped. The number of rows is not checked here; AscSum checks it. `passed` receives the ops between
// the tensor and the matrix, including the cut.
bool FindColumns(const Shapes& shapes, Port at, Columns* columns, Nodes* passed);

// Returns true if CutOut can replace a cut: the position of the cut is known without the shapes of adjacent tensors.
bool HasKnownPlace(const Shapes& shapes, const tensorflow::Node& cut);

// Returns true if `axis` is the column axis of a matrix. The axis is 1 or -1. In the gradient of a concat, the axis may
// also be computed as 1 or -1 modulo the rank.
bool IsColumnAxis(const Port& axis);

// Reads the index of the first column from the input `begin` of a Slice. Returns false if the index is unknown.
bool BeginOfSlice(const Shapes& shapes, const Port& begin, std::int64_t* column);

// Reads the sizes of the pieces of SplitV. An unknown size is -1. `port` is a constant, or is computed from shapes as
// in the gradient of a concat.
bool SizesOfSplit(const Shapes& shapes, const Port& port, Numbers* sizes);

// Moves the outgoing control edges of a cut to the op whose output the cut reads. TensorFlow adds control edges between
// gradients that are used together.
void WaitForWhole(tensorflow::Graph* graph, tensorflow::Node* cut);

// Replaces the position of `cut` (a Slice or a SplitV) by constants. A cut at a constant position does not need the
// shapes of adjacent tensors, so the adjacent tensors need not be computed. A SplitV becomes one Slice for each output
// that has readers outside `gone`.
tensorflow::Status CutOut(tensorflow::Graph* graph, const Shapes& shapes, tensorflow::Node* cut, const NodeSet& gone);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_COLUMNS_H_
