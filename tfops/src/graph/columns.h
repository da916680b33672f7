// Shapes within the graph of one step, and which columns of a matrix a tensor is.
#ifndef ASCPIPE_GRAPH_COLUMNS_H_
#define ASCPIPE_GRAPH_COLUMNS_H_

#include "graph/step_graph.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"

namespace ascpipe {
namespace step {

// Shapes of the outputs of some nodes and of those before them, as far as they are known before the step runs.
class Shapes {
 public:
  Shapes(const tensorflow::Graph& graph, const Nodes& nodes);

  // False: not even the rank is known.  -1: this axis is not known.
  bool Read(const Port& port, Numbers* dims) const;
  bool IsMatrix(const Port& port) const;
  // Columns of a matrix, -1 where they are not known or it is none.
  std::int64_t Columns(const Port& port) const;

 private:
  tensorflow::ShapeRefiner refiner_;
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

// Whether it is known where a cut lies, so that it can be cut without the shapes of the tensors beside it (cuts.h).
bool HasKnownPlace(const Shapes& shapes, const tensorflow::Node& cut);

// Whether an axis of a matrix is that of its columns: 1 or -1, also as the gradient of a concat writes it, modulo the
// rank.
bool IsColumnAxis(const Port& axis);

// The first column of Slice, from its input `begin`.
bool BeginOfSlice(const Shapes& shapes, const Port& begin, std::int64_t* column);

// The sizes of the pieces of SplitV, -1 for those that are not known: a constant, or what the gradient of a concat of
// many tensors makes of their shapes.
bool SizesOfSplit(const Shapes& shapes, const Port& port, Numbers* sizes);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_COLUMNS_H_
