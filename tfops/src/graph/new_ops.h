// Builders of AscRead and AscSum. AscRead and AscSum each replace several ops of the program in the graph of a step.
#ifndef ASCPIPE_GRAPH_NEW_OPS_H_
#define ASCPIPE_GRAPH_NEW_OPS_H_

#include <string>
#include <vector>

#include "graph/step_graph.h"

namespace ascpipe {
namespace step {

using Integers = std::vector<int>;
using Outs = std::vector<tensorflow::NodeBuilder::NodeOut>;

// Ports of a Combination. `splits` has no node if rows are not combined.
struct BagPorts {
  Port splits, weights;
  std::string combiner;
  float max_norm = 0;
};

// Inputs and attributes that describe the bags of an op.
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
  // Starts an output. The functions below append a feature, the bags of the last feature, or another tensor to the
  // output. Features may share their rows.
  void BeginOutput() { pieces_.push_back(0); }
  void AddFeature(const Port& rows, const Port& slots, const Port& default_row, int table, const Port& restore);
  void AddBags(const BagPorts& bags) { bags_.Add(bags); }  // adds the bags of the last feature
  void AddOther(const Port& port);

  // Adds the op on the device of `beside`, with the control inputs `waits`.
  tensorflow::Status AddTo(tensorflow::Graph* graph, const Nodes& waits, const tensorflow::Node& beside,
                           tensorflow::Node** node) const;

 private:
  Outs rows_, slots_, default_row_, restore_, others_;
  Integers tables_, sources_, pieces_;
  Integers order_;  // index of a feature, or -1 - index of another tensor
  BagInputs bags_;
};

class SumOp {
 public:
  void AddTable(const Port& rows, const Port& slots, int dim, bool partial);  // `rows` has no node if there are no rows
  // Appends a feature to the last table. `column` is -1 if the feature has a separate gradient tensor.
  void AddFeature(const Port& restore, const Port& gradient, int column, const BagPorts& bags);

  // Adds the op. The arguments are as in ReadOp::AddTo.
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
