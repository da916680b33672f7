// Columns of a tensor of gradients that stay as they are where others are read in place.
#ifndef ASCPIPE_GRAPH_CUTS_H_
#define ASCPIPE_GRAPH_CUTS_H_

#include <set>

#include "graph/columns.h"

namespace ascpipe {
namespace step {

// Lets what waits for a cut wait for the tensor that it is of.  TensorFlow lets gradients that are used together wait
// for each other.
void WaitForWhole(tensorflow::Graph* graph, tensorflow::Node* cut);

// Lets columns be cut out of the whole where they are known to lie, so that nothing asks for the shapes of the tensors
// beside them.  cut: a Slice, or a SplitV, which becomes Slices for all that reads it and is not among `gone`.
tensorflow::Status CutOut(tensorflow::Graph* graph, const Shapes& shapes, tensorflow::Node* cut,
                          const std::set<const tensorflow::Node*>& gone);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_CUTS_H_
