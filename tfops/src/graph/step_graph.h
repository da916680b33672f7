// Functions that query or change the graph of one step. The passes use these functions.
#ifndef ASCPIPE_GRAPH_STEP_GRAPH_H_
#define ASCPIPE_GRAPH_STEP_GRAPH_H_

#include <cstdint>
#include <initializer_list>
#include <unordered_set>
#include <vector>

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

using Nodes = std::vector<tensorflow::Node*>;
using NodeSet = std::unordered_set<const tensorflow::Node*>;
using Numbers = std::vector<std::int64_t>;

// An output of a node.
struct Port {
  tensorflow::Node* node = nullptr;
  int index = 0;

  bool operator==(const Port& other) const { return node == other.node && index == other.index; }
  tensorflow::NodeBuilder::NodeOut out() const { return {node, index}; }
};

// ---- queries

void ByName(Nodes* nodes);  // sorts by name, so that the order is reproducible

// Returns the source of input `place`. If the node does not have the input, the returned port has no node.
Port Source(const tensorflow::Node* node, int place);

bool Is(const tensorflow::Node* node, std::initializer_list<const char*> types);

// Reads the value of a constant. Returns false if the node is not a constant.
bool ReadTensor(const tensorflow::Node* node, tensorflow::Tensor* tensor);
bool ReadNumbers(const Port& port, Numbers* numbers);  // fails unless the constant contains integers
bool IsNumber(const Port& port, std::int64_t number);

// Returns an integer attribute. Returns -1 if the node does not have the attribute.
int IntOf(const tensorflow::Node* node, const char* attr);

bool HasControlOutputs(const tensorflow::Node* node);
void AddControlInputs(const tensorflow::Node* node, Nodes* found);

inline bool IsTrue(const tensorflow::Node& node, const char* attr) {
  bool value = false;
  return tensorflow::GetNodeAttr(node.attrs(), attr, &value).ok() && value;
}

// Visits the nodes in `left`, and all nodes that produce data for these nodes, directly or indirectly. Each node is
// visited once. The search does not continue beyond a node for which `visit` returns false.
template <typename Visit>
void VisitSources(Nodes left, const Visit& visit) {
  NodeSet seen(left.begin(), left.end());
  while (!left.empty()) {
    tensorflow::Node* const node = left.back();
    left.pop_back();
    if (!visit(node)) continue;
    for (const tensorflow::Edge* edge : node->in_edges()) {
      if (!edge->IsControlEdge() && seen.insert(edge->src()).second) left.push_back(edge->src());
    }
  }
}

// Visits the nodes in `left`, and all nodes that use data of these nodes, directly or indirectly. Each node is visited
// once.
template <typename Visit>
void VisitReaders(Nodes left, const Visit& visit) {
  NodeSet seen(left.begin(), left.end());
  while (!left.empty()) {
    tensorflow::Node* const node = left.back();
    left.pop_back();
    visit(node);
    for (const tensorflow::Edge* edge : node->out_edges()) {
      if (!edge->IsControlEdge() && seen.insert(edge->dst()).second) left.push_back(edge->dst());
    }
  }
}

// Returns the ops that update table variables, including updates in conditionals.
Nodes Updates(const Nodes& variables);

// Set of all successors, or of all predecessors, of some nodes.
class Reached {
 public:
  enum class Way { kAfter, kBefore };

  Reached(const tensorflow::Graph& graph, Way way, const Nodes& nodes);

  bool has(const tensorflow::Node* node) const { return reached_[static_cast<std::size_t>(node->id())]; }

 private:
  std::vector<bool> reached_;
};

// ---- changes

// Adds a node with control inputs, on the device of another node.
tensorflow::Status Place(tensorflow::Graph* graph, tensorflow::NodeBuilder* builder, const Nodes& after,
                         const tensorflow::Node& beside, tensorflow::Node** node);

// Adds a constant of two numbers.
tensorflow::Status PlacePair(tensorflow::Graph* graph, std::int64_t first, std::int64_t second,
                             const tensorflow::Node& beside, tensorflow::Node** node);

// Makes all readers and successors of `before` use `now` instead. `now` must have the same outputs as `before`.
tensorflow::Status Repoint(tensorflow::Graph* graph, tensorflow::Node* before, tensorflow::Node* now);

// Makes the readers of output i of `before` read outputs[i] instead. The outgoing control edges of `before` are moved
// to `waited_for`. If outputs[i] has no node, the readers of output i stay unchanged. The inputs of the node `except`
// stay unchanged.
tensorflow::Status Repoint(tensorflow::Graph* graph, tensorflow::Node* before, const std::vector<Port>& outputs,
                           tensorflow::Node* waited_for, const tensorflow::Node* except = nullptr);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_GRAPH_H_
