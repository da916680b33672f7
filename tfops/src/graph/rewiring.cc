#include "graph/rewiring.h"

#include <algorithm>
#include <vector>

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

Status Rewiring::Replace(Node* node, const std::map<int, Port>& outputs, Node* waited_for) {
  const std::vector<const Edge*> edges(node->out_edges().begin(), node->out_edges().end());
  for (const Edge* edge : edges) {
    if (edge->IsControlEdge()) {
      graph_.AddControlEdge(waited_for, edge->dst());
      graph_.RemoveControlEdge(edge);
    } else if (outputs.count(edge->src_output()) > 0) {
      const Port& output = outputs.at(edge->src_output());
      TF_RETURN_IF_ERROR(graph_.UpdateEdge(output.node, output.index, edge->dst(), edge->dst_input()));
    }
  }
  for (const auto& output : outputs) moved_[{node, output.first}] = output.second;
  replaced_[node] = waited_for;
  return Status::OK();
}

std::set<const Node*> Rewiring::Unread() const {
  std::set<const Node*> gone;
  Nodes left;
  const auto is_read = [&gone](const Edge* edge) { return edge->dst()->IsOp() && gone.count(edge->dst()) == 0; };
  const auto take = [&](Node* node) {
    if (gone.count(node) > 0 || std::any_of(node->out_edges().begin(), node->out_edges().end(), is_read)) return;
    gone.insert(node);
    left.push_back(node);
  };
  for (const auto& each : replaced_) take(each.first);
  while (!left.empty()) {
    const Node* const node = left.back();
    left.pop_back();
    for (const Edge* edge : node->in_edges()) {
      Node* const source = edge->src();
      if (source->IsOp() && (replaced_.count(source) > 0 || !source->op_def().is_stateful())) take(source);
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
