// Reads the ops on tables from the graph of a step.
#ifndef ASCPIPE_GRAPH_STEP_READER_H_
#define ASCPIPE_GRAPH_STEP_READER_H_

#include <memory>
#include <vector>

#include "graph/columns.h"
#include "graph/step_graph.h"
#include "step/step.h"

namespace ascpipe {
namespace step {

// A step, and the nodes and ports of its parts.
struct Reading {
  Step step;
  Nodes ops;                 // by item
  std::vector<Port> values;  // by value
  Nodes cuts;                // by index of the cut
  // Control inputs of the readers of a lookup, and of the ops between the lookup and its readers.
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
