// What the graph of a step does with tables.
#ifndef ASCPIPE_GRAPH_STEP_READER_H_
#define ASCPIPE_GRAPH_STEP_READER_H_

#include <memory>
#include <vector>

#include "graph/columns.h"
#include "graph/step_graph.h"
#include "step/step.h"

namespace ascpipe {
namespace step {

// A step, and where its parts are in the graph.
struct Reading {
  Step step;
  Nodes ops;                 // by item
  std::vector<Port> values;  // by number
  Nodes cuts;                // by number
  // What the ops between a lookup and what reads it wait for, and these themselves, besides their inputs.
  std::vector<Nodes> waits_of_bags;
  std::vector<std::vector<Nodes>> waits_of_pieces;  // by join
  std::vector<Nodes> waits_of_sums;
  std::vector<Nodes> gradients_of_rows;  // by sum: AscCombineRowsGrad that it stands for
  std::unique_ptr<Shapes> shapes;        // null in a step without joins
};

// Reads the graph of a step: the only function that knows ops by their names, and follows what only passes rows on.
tensorflow::Status ReadStep(tensorflow::Graph* graph, Reading* reading);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_READER_H_
