// AscRead and AscSum, which stand for several ops of a program in the graph of a step.
#ifndef ASCPIPE_GRAPH_NEW_OPS_H_
#define ASCPIPE_GRAPH_NEW_OPS_H_

#include <string>
#include <vector>

#include "graph/step_graph.h"

namespace ascpipe {
namespace step {

// How rows of positions become one for each bag: the ports of a Combination.  splits without a node: they do not.
struct BagPorts {
  Port splits, weights;
  std::string combiner;
  float max_norm = 0;
};

// What one AscRead does.
struct ReadOp {
  struct Source {
    Port rows, slots, default_row;
    int table;
  };
  struct Feature {
    int source;
    Port restore;
    BagPorts bags;
  };
  // Of an output: numbers of features, and, less 1 and negative, of others.
  using Pieces = std::vector<int>;

  std::vector<Source> sources;
  std::vector<Feature> features;
  std::vector<Port> others;
  std::vector<Pieces> outputs;

  int AddSource(const Source& source);  // its number; equal ones have one
  int AddOther(const Port& port);       // as a piece
};

// What one AscSum does.
struct SumOp {
  struct Table {
    Port rows;  // no node: none
    Port slots;
    int dim;
    bool partial;
  };
  struct Feature {
    int table;
    Port restore, gradient;
    int column;  // -1: the gradient is the feature's own
    BagPorts bags;
  };

  std::vector<Table> tables;
  std::vector<Feature> features;
};

// Adds an op that waits for others, on the device of a further one.
tensorflow::Status Add(const ReadOp& read, const Nodes& waits, const tensorflow::Node& beside, tensorflow::Graph* graph,
                       tensorflow::Node** node);
tensorflow::Status Add(const SumOp& sum, const Nodes& waits, const tensorflow::Node& beside, tensorflow::Graph* graph,
                       tensorflow::Node** node);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_NEW_OPS_H_
