// Shapes within the graph of one step, and which columns of a matrix a tensor is.
#ifndef ASCPIPE_BRIDGE_STEP_COLUMNS_H_
#define ASCPIPE_BRIDGE_STEP_COLUMNS_H_

#include "bridge/step_graph.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"

namespace ascpipe {

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

// Whether a tensor is `columns` whole columns of a matrix, in their shape or another one: the gradient op refuses what
// does not have as many rows as the batch.
bool FindColumns(const Shapes& shapes, Port at, std::int64_t columns, std::int64_t* begin, Port* whole);

// Whether an axis of a matrix is that of its columns: 1 or -1, also as the gradient of a concat writes it, modulo the rank.
bool IsColumnAxis(const Port& axis);

// The first column of Slice, from its input `begin`.
bool BeginOfSlice(const Shapes& shapes, const Port& begin, std::int64_t* column);

// The sizes of the pieces of SplitV, -1 for those that are not known: a constant, or what the gradient of a concat of
// many tensors makes of their shapes.
bool SizesOfSplit(const Shapes& shapes, const Port& port, Numbers* sizes);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_COLUMNS_H_
