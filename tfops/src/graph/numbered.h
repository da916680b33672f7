// Numbers for what a step has, while its graph is read.
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

// The ops of a step at which a search ends, with their numbers in it.
struct Ends {
  std::map<const tensorflow::Node*, int> joins, bags, sums, cuts;
};

// The nodes of a graph by type, and the numbers that a reading gives to ops, outputs and loops.
class Numbered {
 public:
  Numbered(tensorflow::Graph* graph, Reading* reading);

  tensorflow::Status ReadLoops();  // before the first question about a loop

  // All nodes of a type, by name: of ascpipe's types, or ConcatV2.
  const Nodes& All(const std::string& type) { return by_type_[type]; }
  bool has_control_flow() const { return has_control_flow_; }
  Item ItemOf(tensorflow::Node* node);
  Items ItemsOf(const Nodes& nodes);
  Value ValueOf(const Port& port);
  int LoopOf(const tensorflow::Node& node);  // 0: in none

  tensorflow::Graph& graph;
  Reading& reading;
  Step& step;
  Ends ends;                                                        // where searches for uses end
  std::map<std::pair<const tensorflow::Node*, int>, int> features;  // outputs of lookups
  std::vector<Port> gradients;                                      // of the features of all sums
  Nodes waiting;                                                    // ops whose waits the rules ask for

 private:
  std::map<std::string, Nodes> by_type_;
  bool has_control_flow_ = false;
  std::map<const tensorflow::Node*, Item> items_;
  std::map<std::pair<const tensorflow::Node*, int>, Value> values_;
  std::map<const tensorflow::Node*, int> loops_;
  std::vector<tensorflow::ControlFlowInfo> frames_;  // by node
};

// Parts of ReadStep.
void ReadJoins(Numbered* numbered);    // joins, and the columns and cuts of gradients
void ReadUses(Numbered* numbered);     // of features, bags and cuts; after all of these
void ReadChanges(Numbered* numbered);  // plans, updates, and readers and writers by handle

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_NUMBERED_H_
