// Makes sessions deterministic. In the graph of a step, variables are read before they are updated, and the tensors of
// a sum are added in a fixed order (ADR 57).
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "bridge/compatibility.h"
#include "graph/graph_order.h"
#include "graph/step_graph.h"
#include "graph/step_pass.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/control_flow.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

bool BeginsWithAny(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&text](const std::string& begin) { return text.compare(0, begin.size(), begin) == 0; });
}

// Returns true if an output of the op may share the memory of an input. If this input is a variable, readers of the
// output read the variable.
bool MayAlias(const Node& node) {
  return node.IsSwitch() || node.IsMerge() || node.IsEnter() || node.IsExit() || node.IsNextIteration() ||
         Is(&node, {"AddN",
                    "All",
                    "Any",
                    "Bitcast",
                    "BroadcastTo",
                    "Cast",
                    "CheckNumerics",
                    "Concat",
                    "ConcatV2",
                    "ConjugateTranspose",
                    "DebugIdentity",
                    "EnsureShape",
                    "ExpandDims",
                    "Identity",
                    "IdentityN",
                    "Max",
                    "Mean",
                    "Min",
                    "MirrorPad",
                    "Pack",
                    "Pad",
                    "PadV2",
                    "PlaceholderWithDefault",
                    "PreventGradient",
                    "Print",
                    "Prod",
                    "Reshape",
                    "Reverse",
                    "ReverseV2",
                    "Slice",
                    "Snapshot",
                    "Split",
                    "SplitV",
                    "Squeeze",
                    "StopGradient",
                    "StridedSlice",
                    "Sum",
                    "Tile",
                    "Transpose",
                    "Unpack"});
}

// Reads and updates of one variable.
struct Uses {
  std::vector<const Edge*> reads;  // outgoing edges with the variable's value
  Nodes updates;                   // updates except the variable's initializer
};

class VariableOrder {
 public:
  explicit VariableOrder(Graph* graph) : graph_(*graph) {}

  Status Apply() {
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph_, &frames_));
    Nodes sums, variables;
    for (Node* node : graph_.op_nodes()) {
      if (Is(node, {"Variable", "VariableV2", "VarHandleOp"})) variables.push_back(node);
      if (node->type_string() == "AddN") sums.push_back(node);
    }
    ByName(&variables);
    ByName(&sums);
    Nodes order;
    tensorflow::GetReversePostOrder(graph_, &order);
    branches_ = step::BranchesOf(graph_, order);
    for (Node* variable : variables) {
      const Uses uses = UsesOf(variable);
      if (uses.updates.empty()) continue;
      TF_RETURN_IF_ERROR(CopyIntoControlFlow(uses));
      Order(UsesOf(variable));
    }
    for (Node* sum : sums) TF_RETURN_IF_ERROR(AddInOneOrder(sum));
    tensorflow::FixupSourceAndSinkEdges(&graph_);
    return OkStatus();
  }

 private:
  // ---- reads and updates

  static Uses UsesOf(Node* variable) {
    Uses uses;
    if (variable->type_string() == "VarHandleOp") {
      for (const Edge* edge : variable->out_edges()) {
        const std::string& type = edge->dst()->type_string();
        if (edge->IsControlEdge() || edge->dst_input() != 0) continue;
        if (BeginsWithAny(type, {"ReadVariableOp", "ResourceGather"})) {
          uses.reads.push_back(edge);
        } else if (BeginsWithAny(type, {"Assign", "ResourceApply", "ResourceCountUpTo", "ResourceScatter",
                                        "ResourceSparseApply", "ResourceStridedSliceAssign"})) {
          AddUpdate(*variable, edge->dst(), &uses);
        }
      }
      ByName(&uses.updates);
      return uses;
    }
    Nodes left = {variable};
    std::set<const Node*> seen;
    while (!left.empty()) {
      Node* const node = left.back();
      left.pop_back();
      for (const Edge* edge : node->out_edges()) {
        Node* const user = edge->dst();
        if (edge->IsControlEdge() || !user->IsOp() || !tensorflow::IsRefType(node->output_type(edge->src_output()))) {
          continue;
        }
        if (!tensorflow::IsRefType(user->input_type(edge->dst_input()))) {
          uses.reads.push_back(edge);
          continue;
        }
        if (BeginsWithAny(user->type_string(), {"Asc"}))
          return Uses();  // a table variable: step/order_rules.cc orders its readers and updates
        if (!seen.insert(user).second) continue;
        if (!BeginsWithAny(user->type_string(), {"Ref", "IsVariableInitialized"})) AddUpdate(*variable, user, &uses);
        left.push_back(user);
      }
    }
    ByName(&uses.updates);
    return uses;
  }

  // Adds an update. Initializers are not added, because an initializer runs before any op can read the variable.
  static void AddUpdate(const Node& variable, Node* update, Uses* uses) {
    if (update->name() != variable.name() + "/Assign") uses->updates.push_back(update);
  }

  bool IsOutsideLoops(const Node* node) const {
    return frames_[static_cast<std::size_t>(node->id())].frame_name.empty();
  }

  // Returns true if a control edge may lead from `from` to `to`. Both nodes must be outside loops, and `from` must run
  // whenever `to` runs.
  bool MayLead(const Node* from, const Node* to) const {
    const step::Branch& first = branches_[static_cast<std::size_t>(from->id())];
    const step::Branch& second = branches_[static_cast<std::size_t>(to->id())];
    return IsOutsideLoops(from) && IsOutsideLoops(to) &&
           std::includes(second.begin(), second.end(), first.begin(), first.end());
  }

  // ---- readers first

  // Adds control edges from every reader to every update, and between updates in the order of their names. No edge is
  // added between two ops if the graph already orders them or if MayLead returns false for them.
  void Order(const Uses& uses) {
    for (Node* update : uses.updates) {
      const Reached after(graph_, Reached::Way::kAfter, {update}), before(graph_, Reached::Way::kBefore, {update});
      std::set<const Node*> seen;
      Nodes readers;
      for (const Edge* read : uses.reads) AddReaders(read, after, &seen, &readers);
      for (Node* other : uses.updates) {
        if (other->name() < update->name()) readers.push_back(other);
      }
      for (Node* reader : readers) {
        if (reader == update || after.has(reader) || before.has(reader) || !MayLead(reader, update)) continue;
        graph_.AddControlEdge(reader, update);
      }
    }
  }

  // Finds the ops that read the value of an edge, directly or through aliasing ops. Ops in `after` are excluded,
  // because they run after an update.
  static void AddReaders(const Edge* read, const Reached& after, std::set<const Node*>* seen, Nodes* readers) {
    Node* const node = read->dst();
    if (!node->IsOp() || read->IsControlEdge() || after.has(node) || node->type_string()[0] == '_') return;
    if (!seen->insert(node).second) return;
    readers->push_back(node);
    if (!MayAlias(*node)) return;
    for (const Edge* edge : node->out_edges()) AddReaders(edge, after, seen, readers);
  }

  // Makes readers in branches and loops read a copy of the variable. The variable is copied before the updates. No
  // control edge can lead from a reader in a branch or loop to an update outside, because the reader may never run, or
  // may run many times. If the program makes a reader in a branch or loop wait for an update, no copy is made, and
  // TensorFlow decides the order.
  Status CopyIntoControlFlow(const Uses& uses) {
    const Reached after(graph_, Reached::Way::kAfter, uses.updates);
    std::set<const Node*> seen;
    std::vector<const Edge*> entries;
    for (const Edge* read : uses.reads) AddEntries(read, after, &seen, &entries);
    for (const Edge* entry : entries) {
      Node* const user = entry->dst();
      const int place = entry->dst_input();
      NodeBuilder builder(graph_.NewName("ascpipe/value_before_update"), "DeepCopy", graph_.op_registry());
      Node* copy;
      TF_RETURN_IF_ERROR(Place(&graph_, &builder.Input(entry->src(), entry->src_output()), {}, *entry->src(), &copy));
      const auto from = static_cast<std::size_t>(entry->src()->id());
      const auto size = static_cast<std::size_t>(graph_.num_node_ids());
      frames_.resize(size, frames_[from]);
      branches_.resize(size, branches_[from]);
      TF_RETURN_IF_ERROR(graph_.UpdateEdge(copy, 0, user, place));
    }
    return OkStatus();
  }

  void AddEntries(const Edge* read, const Reached& after, std::set<const Node*>* seen,
                  std::vector<const Edge*>* entries) const {
    Node* const node = read->dst();
    if (!node->IsOp() || read->IsControlEdge() || after.has(node) || !MayAlias(*node)) return;
    if ((node->IsSwitch() || node->IsEnter()) && read->dst_input() == 0) {
      std::set<const Node*> within;
      if (IsOutsideLoops(read->src()) && !HasReaderAfter(node, after, &within)) entries->push_back(read);
      return;
    }
    if (!seen->insert(node).second) return;
    for (const Edge* edge : node->out_edges()) AddEntries(edge, after, seen, entries);
  }

  static bool HasReaderAfter(const Node* node, const Reached& after, std::set<const Node*>* seen) {
    for (const Edge* edge : node->out_edges()) {
      const Node* const reader = edge->dst();
      if (edge->IsControlEdge() || !reader->IsOp() || !seen->insert(reader).second) continue;
      if (after.has(reader) || (MayAlias(*reader) && HasReaderAfter(reader, after, seen))) return true;
    }
    return false;
  }

  // ---- sums

  // Replaces AddN by ops that add two tensors each, from left to right. AddN starts with the first input whose memory
  // no other op uses, so the order of its additions depends on timing (ADR 14).
  Status AddInOneOrder(Node* sum) {
    const int count = IntOf(sum, "N");
    const tensorflow::DataType type = sum->output_type(0);
    if (count < 3 || !(tensorflow::DataTypeIsFloating(type) || tensorflow::DataTypeIsComplex(type))) {
      return OkStatus();
    }
    Nodes after;
    AddControlInputs(sum, &after);
    Port total = Source(sum, 0);
    for (int i = 1; i < count; ++i) {
      NodeBuilder builder(graph_.NewName("ascpipe/sum_in_order"), "Add", graph_.op_registry());
      Node* added;
      builder.Input(total.out()).Input(Source(sum, i).out());
      TF_RETURN_IF_ERROR(Place(&graph_, &builder, after, *sum, &added));
      total = {added, 0};
    }
    TF_RETURN_IF_ERROR(Repoint(&graph_, sum, total.node));
    graph_.RemoveNode(sum);
    return OkStatus();
  }

  Graph& graph_;
  std::vector<tensorflow::ControlFlowInfo> frames_;  // by node
  std::vector<step::Branch> branches_;               // by node
};

}  // namespace

Status OrderVariables(tensorflow::Graph* graph) { return VariableOrder(graph).Apply(); }

}  // namespace ascpipe
