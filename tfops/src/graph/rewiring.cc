#include "graph/rewiring.h"

#include <algorithm>
#include <vector>

#include "bridge/compatibility.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Node;
using tensorflow::Status;

Node* Rewiring::OpOf(Item item) const {
  const auto found = written_.find(item);
  return found == written_.end() ? reading_.ops[At(item)] : found->second;
}

Port Rewiring::PortOf(Value value) const {
  if (value < 0) return Port();
  const Port& port = reading_.values[At(value)];
  const auto found = moved_.find({port.node, port.index});
  return found == moved_.end() ? port : found->second;
}

void Rewiring::AddWaits(const Nodes& waits, Nodes* all) const {
  for (Node* wait : waits) {
    const auto found = replaced_.find(wait);
    Node* const node = found == replaced_.end() ? wait : found->second;
    if (std::find(all->begin(), all->end(), node) == all->end()) all->push_back(node);
  }
}

Status Rewiring::Replace(Node* node, const std::vector<Port>& outputs, Node* waited_for) {
  TF_RETURN_IF_ERROR(Repoint(&graph_, node, outputs, waited_for));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].node != nullptr) moved_[{node, static_cast<int>(i)}] = outputs[i];
  }
  replaced_[node] = waited_for;
  return OkStatus();
}

NodeSet Rewiring::Unread() const {
  NodeSet gone;
  Nodes left;
  std::vector<int> readers(At(graph_.num_node_ids()), -1);  // remaining readers by node; -1: not counted yet
  const auto count = [&readers](const Node* node) -> int& {
    int& number = readers[At(node->id())];
    if (number >= 0) return number;
    number = 0;
    for (const Edge* edge : node->out_edges()) number += edge->dst()->IsOp() ? 1 : 0;
    return number;
  };
  const auto take = [&](Node* node) {
    if (gone.insert(node).second) left.push_back(node);
  };
  for (const auto& each : replaced_) {
    if (count(each.first) == 0) take(each.first);
  }
  while (!left.empty()) {
    const Node* const node = left.back();
    left.pop_back();
    for (const Edge* edge : node->in_edges()) {
      Node* const source = edge->src();
      if (!source->IsOp() || --count(source) > 0) continue;
      if (replaced_.count(source) > 0 || !source->op_def().is_stateful()) take(source);
    }
  }
  return gone;
}

void Rewiring::RemoveUnread() {
  if (replaced_.empty()) return;
  for (const Node* node : Unread()) graph_.RemoveNode(const_cast<Node*>(node));
  tensorflow::FixupSourceAndSinkEdges(&graph_);
}

}  // namespace step
}  // namespace ascpipe
