// Finds the ops that use an output of a node. The search continues through ops that only pass the output on or read its
// shape.
#include <algorithm>
#include <set>

#include "graph/numbered.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Node;

namespace {

// Returns true if an op only passes an input on, or computes shapes and sizes. An op for which PassesOn returns true
// can be removed if its outputs have no readers.
bool PassesOn(const Node& node) {
  if (node.op_def().is_stateful() || HasControlOutputs(&node)) return false;
  if (Is(&node, {"Identity", "StopGradient", "Reshape", "Squeeze", "ExpandDims"})) return true;
  return node.num_outputs() > 0 && std::all_of(node.output_types().begin(), node.output_types().end(), [](int type) {
           return type == tensorflow::DT_INT32 || type == tensorflow::DT_INT64;
         });
}

class UseSearch {
 public:
  UseSearch(const Ends& ends, std::vector<std::string>* readers) : ends_(ends), readers_(*readers) {}

  // Returns all uses. If a use has the kind kOther, returns only that use. If `is_waited_for` is true, control edges
  // count as uses, too.
  Uses Of(const Port& port, bool is_waited_for = false) {
    Uses uses;
    for (const Edge* edge : port.node->out_edges()) {
      if (!edge->dst()->IsOp()) continue;
      if (edge->IsControlEdge() && is_waited_for) Add(&uses, Other(*edge->dst()));
      if (!edge->IsControlEdge() && edge->src_output() == port.index) Add(&uses, Along(*edge));
    }
    return uses;
  }

  Uses OfAll(Node* node) {  // returns the uses of all outputs
    Uses uses;
    for (int i = 0; i < node->num_outputs(); ++i) Add(&uses, Of({node, i}));
    return uses;
  }

 private:
  static void Add(Uses* all, const Uses& more) {
    for (const Use& use : more) {
      if (!all->empty() && all->front().by == By::kOther) return;
      if (use.by == By::kOther) all->clear();
      if (std::find(all->begin(), all->end(), use) == all->end()) all->push_back(use);
    }
  }

  Uses Other(const Node& reader) {
    readers_.push_back(reader.type_string() == "_Retval" ? "it is fetched"
                                                         : "'" + reader.name() + "' reads it as well");
    return {{By::kOther, static_cast<int>(readers_.size()) - 1}};
  }

  Uses Along(const Edge& edge) {
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
      if (!begun_.insert(node).second) return Other(*node);  // the node is in a loop
      std::vector<Uses> uses;
      for (int i = 0; i < node->num_outputs(); ++i) uses.push_back(Of({node, i}));
      known_[node] = uses;
    }
    Uses all;
    for (const Uses& uses : known_[node]) Add(&all, uses);
    if (all.empty()) return Other(*node);  // the op is a fetch of the program
    // Output i of ShapeN is the shape of input i, so only readers of output i use input i. A cut that reads another
    // output does not need ShapeN, because CutOut replaces that output by a separate Shape op.
    if (node->type_string() == "ShapeN" && all.front().by != By::kOther) return known_[node][At(input)];
    return all;
  }

  // Returns the uses of an input of an AscCombineRowsGrad op. If only sums read the outputs of the op, the sums replace
  // the op and read its inputs (the gradient and the rows) directly.
  Uses ThroughGradientOfRows(const Edge& edge) {
    Node* const node = edge.dst();
    Uses uses = OfAll(node);
    const bool is_summed = !uses.empty() && std::all_of(uses.begin(), uses.end(),
                                                        [](const Use& use) { return use.by == By::kSumGradient; });
    if (edge.dst_input() == 0 && is_summed) return uses;
    if (edge.dst_input() != 2 + IntOf(node, "w") || !is_summed) return Other(*node);
    for (Use& use : uses) use.by = By::kRowsOfSum;
    return uses;
  }

  const Ends& ends_;
  std::vector<std::string>& readers_;
  std::map<const Node*, std::vector<Uses>> known_;  // by output
  std::set<const Node*> begun_;
};

bool IsRead(const Node& node) {
  const auto& edges = node.out_edges();
  return std::any_of(edges.begin(), edges.end(), [](const Edge* edge) { return !edge->IsControlEdge(); });
}

// Adds the control inputs of a gradient op to *waits. Gradients that are gated or used together wait for each other. If
// a control input is a cut, the op that computes the whole tensor is added instead. Ops that will be removed are
// skipped.
void AddWaits(const Ends& ends, const Node& node, Nodes* waits) {
  Nodes inputs;
  AddControlInputs(&node, &inputs);
  for (Node* input : inputs) {
    const bool is_cut = ends.cuts.count(input) > 0;
    if (is_cut) waits->push_back(Source(input, 0).node);
    if (is_cut || input->type_string() == "NoOp") {
      AddWaits(ends, *input, waits);
    } else if (input->type_string() != "AscCombineRowsGrad" &&
               (input->type_string() != "AscCombineWeightsGrad" || IsRead(*input))) {
      waits->push_back(input);
    }
  }
}

}  // namespace

void ReadUses(Numbered* numbered) {
  Reading& reading = numbered->reading;
  Step& step = numbered->step;
  UseSearch search(numbered->ends, &step.readers);
  for (Feature& feature : step.features) {
    Node* const node = reading.ops[At(step.lookups[At(feature.lookup)].item)];
    feature.uses = search.Of({node, feature.output}, HasControlOutputs(node));
  }
  for (const auto& bag : numbered->ends.bags) {
    Node* const node = const_cast<Node*>(bag.first);
    step.bags[At(bag.second)].uses = search.Of({node, 0}, HasControlOutputs(node));
  }
  for (std::size_t i = 0; i < reading.cuts.size(); ++i) step.cuts[i].uses = search.OfAll(reading.cuts[i]);
  for (Nodes& passed : reading.waits_of_sums) {
    Nodes waits;
    for (const Node* node : passed) AddWaits(numbered->ends, *node, &waits);
    passed = waits;
  }
}

}  // namespace step
}  // namespace ascpipe
