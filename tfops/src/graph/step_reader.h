// Finds the ops in the graph of a step that use tables.
#ifndef ASCPIPE_GRAPH_STEP_READER_H_
#define ASCPIPE_GRAPH_STEP_READER_H_

#include <memory>
#include <vector>

#include "graph/columns.h"
#include "graph/step_graph.h"
#include "step/step.h"

namespace ascpipe {
namespace step {

// Description of a step, and the nodes and ports to which the numbers in the description refer.
struct Reading {
  Step step;
  Nodes ops;                 // by item
  std::vector<Port> values;  // by value
  Nodes cuts;                // by index of the cut
  // Control inputs of a lookup's reader (bag, piece of a join, sum), and of the ops between the lookup and the reader.
  std::vector<Nodes> waits_of_bags;
  std::vector<std::vector<Nodes>> waits_of_pieces;  // by join
  std::vector<Nodes> waits_of_sums;
  std::vector<Nodes> gradients_of_rows;  // by sum: the AscCombineRowsGrad ops that the sum replaces
  std::unique_ptr<Shapes> shapes;        // null for a step without joins
};

tensorflow::Status ReadStep(tensorflow::Graph* graph, Reading* reading);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_READER_H_
