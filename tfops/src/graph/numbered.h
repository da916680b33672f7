// Numbering of the ops, outputs and loops of a step while its graph is read.
#ifndef ASCPIPE_GRAPH_NUMBERED_H_
#define ASCPIPE_GRAPH_NUMBERED_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "graph/step_reader.h"
#include "tensorflow/core/graph/control_flow.h"

namespace ascpipe {
namespace step {

// Ops at which a search for uses ends. Each op is mapped to its index in the step.
struct Ends {
  std::map<const tensorflow::Node*, int> joins, bags, sums, cuts;
};

// Nodes of a graph by type, and the indices of ops, outputs and loops.
class Numbered {
 public:
  Numbered(tensorflow::Graph* graph, Reading* reading);

  tensorflow::Status ReadLoops();  // call before LoopOf

  // Returns all nodes of a type, sorted by name. `type` must be an op of ascpipe or ConcatV2.
  const Nodes& All(const std::string& type) { return by_type_[type]; }
  bool has_control_flow() const { return has_control_flow_; }
  Item ItemOf(tensorflow::Node* node);
  Items ItemsOf(const Nodes& nodes);
  Value ValueOf(const Port& port);
  int LoopOf(const tensorflow::Node& node);  // 0: not in a loop

  tensorflow::Graph& graph;
  Reading& reading;
  Step& step;
  Ends ends;                                                        // ops at which searches for uses end
  std::map<std::pair<const tensorflow::Node*, int>, int> features;  // indices of outputs of lookups
  std::vector<Port> gradients;                                      // gradients of the features of all sums
  Nodes waiting;                                                    // ops whose control inputs the rules need

 private:
  std::map<std::string, Nodes> by_type_;
  bool has_control_flow_ = false;
  std::map<const tensorflow::Node*, Item> items_;
  std::map<std::pair<const tensorflow::Node*, int>, Value> values_;
  std::map<const tensorflow::Node*, int> loops_;
  std::vector<tensorflow::ControlFlowInfo> frames_;  // by node
};

// Parts of ReadStep.
void ReadJoins(Numbered* numbered);    // joins, and columns and cuts of gradients
void ReadUses(Numbered* numbered);     // uses of features, bags and cuts; call it after these are read
void ReadChanges(Numbered* numbered);  // plans, updates, and ops that read or write rows by handle

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_NUMBERED_H_
