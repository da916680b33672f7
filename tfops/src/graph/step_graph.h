// Questions about the graph of one step and changes of it, for the passes.
#ifndef ASCPIPE_GRAPH_STEP_GRAPH_H_
#define ASCPIPE_GRAPH_STEP_GRAPH_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/graph/node_builder.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

using Nodes = std::vector<tensorflow::Node*>;
using Numbers = std::vector<std::int64_t>;

// An output of a node.
struct Port {
  tensorflow::Node* node = nullptr;
  int index = 0;

  bool operator==(const Port& other) const { return node == other.node && index == other.index; }
  tensorflow::NodeBuilder::NodeOut out() const { return {node, index}; }
};

// ---- questions

void ByName(Nodes* nodes);  // the same order every time

// What a node reads as its input `place`.  A node of a step has all its inputs; else the port has no node.
Port Source(const tensorflow::Node* node, int place);

bool Is(const tensorflow::Node* node, std::initializer_list<const char*> types);

// The value of a constant; false: it is none.
bool ReadTensor(const tensorflow::Node* node, tensorflow::Tensor* tensor);
bool ReadNumbers(const Port& port, Numbers* numbers);  // of integers
bool IsNumber(const Port& port, std::int64_t number);

// An attribute, -1 if there is none.
int IntOf(const tensorflow::Node* node, const char* attr);

bool HasControlOutputs(const tensorflow::Node* node);
void AddControlInputs(const tensorflow::Node* node, Nodes* found);

inline bool IsTrue(const tensorflow::Node& node, const char* attr) {
  bool value = false;
  return tensorflow::GetNodeAttr(node.attrs(), attr, &value).ok() && value;
}

inline bool IsPlan(const tensorflow::Node& node) {
  return node.type_string() == "AscNextPlan" || node.type_string() == "AscPlans";
}

// Ops that move rows, or let another step do so.
bool IsChange(const tensorflow::Node& node);

// Ops that update table variables, also within a conditional.
Nodes Updates(const Nodes& variables);

// All nodes after some nodes.
class After {
 public:
  After(const tensorflow::Graph& graph, const Nodes& nodes);

  bool has(const tensorflow::Node* node) const { return reached_[static_cast<std::size_t>(node->id())]; }

 private:
  std::vector<bool> reached_;
};

// ---- changes

// Adds a node after some others, on the device of a further one.
tensorflow::Status Place(tensorflow::Graph* graph, tensorflow::NodeBuilder* builder, const Nodes& after,
                         const tensorflow::Node& beside, tensorflow::Node** node);

// Adds a constant of two numbers.
tensorflow::Status PlacePair(tensorflow::Graph* graph, std::int64_t first, std::int64_t second,
                             const tensorflow::Node& beside, tensorflow::Node** node);

// Lets all that reads or waits for a node do so with another one; `outputs`: which of it stand for those of the node.
tensorflow::Status Repoint(tensorflow::Graph* graph, tensorflow::Node* before, tensorflow::Node* now,
                           const std::vector<int>& outputs);

// The same with an output of any node for each of those that are read, and a node that is waited for; what `except`
// reads stays as it is.
tensorflow::Status Repoint(tensorflow::Graph* graph, tensorflow::Node* before, const std::vector<Port>& outputs,
                           tensorflow::Node* waited_for, const tensorflow::Node* except = nullptr);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_GRAPH_H_
