#include "graph/uses.h"

#include <algorithm>

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Node;

namespace {

// Whether an op only passes an input on, or computes shapes and sizes, so that it is not needed if nothing reads it.
bool PassesOn(const Node& node) {
  if (node.op_def().is_stateful() || HasControlOutputs(&node)) return false;
  if (Is(&node, {"Identity", "StopGradient", "Reshape", "Squeeze", "ExpandDims"})) return true;
  return node.num_outputs() > 0 && std::all_of(node.output_types().begin(), node.output_types().end(), [](int type) {
           return type == tensorflow::DT_INT32 || type == tensorflow::DT_INT64;
         });
}

}  // namespace

void UseSearch::Add(Uses* all, const Uses& more) {
  for (const Use& use : more) {
    if (!all->empty() && all->front().by == By::kOther) return;
    if (use.by == By::kOther) all->clear();
    if (std::find(all->begin(), all->end(), use) == all->end()) all->push_back(use);
  }
}

Uses UseSearch::Other(const Node& reader) {
  readers_.push_back(reader.type_string() == "_Retval" ? "it is fetched" : "'" + reader.name() + "' reads it as well");
  return {{By::kOther, static_cast<int>(readers_.size()) - 1}};
}

Uses UseSearch::Of(const Port& port, bool is_waited_for) {
  Uses uses;
  for (const Edge* edge : port.node->out_edges()) {
    if (!edge->dst()->IsOp()) continue;
    if (edge->IsControlEdge() && is_waited_for) Add(&uses, Other(*edge->dst()));
    if (!edge->IsControlEdge() && edge->src_output() == port.index) Add(&uses, Along(*edge));
  }
  return uses;
}

Uses UseSearch::OfAll(Node* node) {
  Uses uses;
  for (int i = 0; i < node->num_outputs(); ++i) Add(&uses, Of({node, i}));
  return uses;
}

Uses UseSearch::Along(const Edge& edge) {
  Node* const node = edge.dst();
  const int input = edge.dst_input();
  const auto in = [node](const std::map<const Node*, int>& ends) {
    const auto found = ends.find(node);
    return found == ends.end() ? -1 : found->second;
  };
  if (in(ends_.joins) >= 0) return {{By::kJoin, in(ends_.joins)}};
  if (in(ends_.bags) >= 0 && input == 0) return {{By::kBag, in(ends_.bags)}};
  if (in(ends_.sums) >= 0 && input > IntOf(node, "k")) return {{By::kSumGradient, in(ends_.sums)}};
  if (in(ends_.cuts) >= 0 && input > 0) {
    return {{input == 2 && node->type_string() == "Slice" ? By::kCutSize : By::kCutBegin, in(ends_.cuts)}};
  }
  if (node->type_string() == "AscCombineRowsGrad") return ThroughGradientOfRows(edge);
  if (in(ends_.cuts) >= 0 || !PassesOn(*node)) return Other(*node);
  const auto known = known_.find(node);
  if (known == known_.end()) {
    if (!begun_.insert(node).second) return Other(*node);  // in a loop
    std::vector<Uses> uses;
    for (int i = 0; i < node->num_outputs(); ++i) uses.push_back(Of({node, i}));
    known_[node] = uses;
  }
  Uses all;
  for (const Uses& uses : known_[node]) Add(&all, uses);
  if (all.empty()) return Other(*node);  // the program asks for the op itself
  // Each shape is an output of its own: a cut whose size is needed takes it from its own tensor (cuts.h).
  if (node->type_string() == "ShapeN" && all.front().by != By::kOther)
    return known_[node][static_cast<std::size_t>(input)];
  return all;
}

// A sum stands for the gradient of rows that only it reads, and needs the rows no more.
Uses UseSearch::ThroughGradientOfRows(const Edge& edge) {
  Node* const node = edge.dst();
  Uses uses = OfAll(node);
  const bool is_summed =
      !uses.empty() && std::all_of(uses.begin(), uses.end(), [](const Use& use) { return use.by == By::kSumGradient; });
  if (edge.dst_input() == 0 && is_summed) return uses;
  if (edge.dst_input() != 2 + IntOf(node, "w") || !is_summed) return Other(*node);
  for (Use& use : uses) use.by = By::kRowsOfSum;
  return uses;
}

}  // namespace step
}  // namespace ascpipe
