// AscRead and AscSum, which stand for several ops of a program in the graph of a step, while they are put together.
#ifndef ASCPIPE_GRAPH_NEW_OPS_H_
#define ASCPIPE_GRAPH_NEW_OPS_H_

#include <string>
#include <vector>

#include "graph/step_graph.h"

namespace ascpipe {
namespace step {

using Integers = std::vector<int>;
using Outs = std::vector<tensorflow::NodeBuilder::NodeOut>;

// How rows of positions become one for each bag: the ports of a Combination.  splits without a node: they do not.
struct BagPorts {
  Port splits, weights;
  std::string combiner;
  float max_norm = 0;
};

// The inputs and attributes of the bags of features.
struct BagInputs {
  void Add(const BagPorts& bags);
  void AddTo(tensorflow::NodeBuilder* builder) const;

  Outs splits, weights;
  Integers bags, weighted;
  std::vector<std::string> combiners;
  std::vector<float> max_norms;
};

class ReadOp {
 public:
  // Append to the output that was begun last: a feature, of rows that may have others, or another tensor.
  void BeginOutput() { pieces_.push_back(0); }
  void AddFeature(const Port& rows, const Port& slots, const Port& default_row, int table, const Port& restore);
  void AddBags(const BagPorts& bags) { bags_.Add(bags); }  // of the feature that was added last
  void AddOther(const Port& port);

  // Adds the op, which waits for `waits`, on the device of `beside`.
  tensorflow::Status AddTo(tensorflow::Graph* graph, const Nodes& waits, const tensorflow::Node& beside,
                           tensorflow::Node** node) const;

 private:
  Outs rows_, slots_, default_row_, restore_, others_;
  Integers tables_, sources_, pieces_;
  Integers order_;  // features, and, less 1 and negative, others
  BagInputs bags_;
};

class SumOp {
 public:
  void AddTable(const Port& rows, const Port& slots, int dim, bool partial);  // rows without a node: none
  // A feature of the table that was added last.  column: -1 if the gradient is the feature's own.
  void AddFeature(const Port& restore, const Port& gradient, int column, const BagPorts& bags);

  // As of ReadOp.
  tensorflow::Status AddTo(tensorflow::Graph* graph, const Nodes& waits, const tensorflow::Node& beside,
                           tensorflow::Node** node) const;

 private:
  Outs rows_, slots_, restore_, gradients_;
  Integers dims_, rows_of_, tables_, sources_, columns_;
  std::vector<bool> partial_;
  BagInputs bags_;
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_NEW_OPS_H_
