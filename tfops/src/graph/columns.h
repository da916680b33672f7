// Shapes within the graph of one step, which columns of a matrix a tensor is, and how such columns are cut out.
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

// Shapes of outputs, as far as they are known before the step runs.  Infers the shape of a node when it is first asked
// for.  Those of nodes that are newer than this are not known.
class Shapes {
 public:
  explicit Shapes(const tensorflow::Graph& graph)
      : graph_(graph), seen_(static_cast<std::size_t>(graph.num_node_ids())) {}

  // False: not even the rank is known.  -1: this axis is not known.
  bool Read(const Port& port, Numbers* dims) const;
  bool IsMatrix(const Port& port) const;
  // Columns of a matrix, -1 where they are not known or it is none.
  std::int64_t Columns(const Port& port) const;

 private:
  void Infer(const tensorflow::Node* asked) const;
  std::int64_t InferColumns(const Port& port) const;

  const tensorflow::Graph& graph_;
  mutable std::vector<bool> seen_;  // by node
  mutable std::unique_ptr<tensorflow::ShapeRefiner> refiner_;
  mutable std::map<std::pair<const tensorflow::Node*, int>, std::int64_t> columns_;  // by port, as found before
};

// Whole columns of a matrix, which a Slice or an output of a SplitV has.
struct Columns {
  Port whole;
  tensorflow::Node* cut = nullptr;
  std::int64_t begin = 0, count = 0;
};

// Whether a tensor is whole columns of a matrix, in their shape or another one: the gradient op refuses what does not
// have as many rows as the batch.  passed: the ops on the way, the cut included.
bool FindColumns(const Shapes& shapes, Port at, Columns* columns, Nodes* passed);

// Whether it is known where a cut lies, so that it can be cut without the shapes of the tensors beside it (CutOut).
bool HasKnownPlace(const Shapes& shapes, const tensorflow::Node& cut);

// Whether an axis of a matrix is that of its columns: 1 or -1, also as the gradient of a concat writes it, modulo the
// rank.
bool IsColumnAxis(const Port& axis);

// The first column of Slice, from its input `begin`.
bool BeginOfSlice(const Shapes& shapes, const Port& begin, std::int64_t* column);

// The sizes of the pieces of SplitV, -1 for those that are not known: a constant, or what the gradient of a concat of
// many tensors makes of their shapes.
bool SizesOfSplit(const Shapes& shapes, const Port& port, Numbers* sizes);

// Lets what waits for a cut wait for the tensor that it is of.  TensorFlow lets gradients that are used together wait
// for each other.
void WaitForWhole(tensorflow::Graph* graph, tensorflow::Node* cut);

// Lets columns be cut out of the whole where they are known to lie, so that nothing asks for the shapes of the tensors
// beside them, which are read in place.  cut: a Slice, or a SplitV, which becomes Slices for all that reads it and is
// not among `gone`.
tensorflow::Status CutOut(tensorflow::Graph* graph, const Shapes& shapes, tensorflow::Node* cut, const NodeSet& gone);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_COLUMNS_H_
