#include "graph/step_branches.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "graph/step_graph.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/control_flow.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::Status;

namespace {

// Sides of conditionals: what decides, an output of a node, and which side.
using Branch = std::set<std::tuple<int, int, int>>;

bool IsOfLoop(const Node& node) {
  return node.IsSwitch() && node.num_inputs() > 1 && Source(&node, 1).node != nullptr &&
         Source(&node, 1).node->IsLoopCond();
}

// What an edge hands on: all that its source is in, and the side of a conditional that it comes from.
Branch Along(const Edge& edge, const std::vector<Branch>& of) {
  Branch branch = of[static_cast<std::size_t>(edge.src()->id())];
  // That a loop goes on or ends is no condition of what comes after it.
  if (!edge.IsControlEdge() && edge.src()->IsSwitch() && !IsOfLoop(*edge.src())) {
    const Port decides = Source(edge.src(), 1);
    branch.emplace(decides.node == nullptr ? -1 : decides.node->id(), decides.index, edge.src_output());
  }
  return branch;
}

// A Merge runs as soon as one of its inputs is there: it is in what all of them are in.
Branch OfMerge(const Node& merge, const std::vector<Branch>& of) {
  Branch common, waits;
  bool is_first = true;
  for (const Edge* edge : merge.in_edges()) {
    if (edge->src()->IsNextIteration()) continue;
    const Branch branch = Along(*edge, of);
    if (edge->IsControlEdge()) {
      waits.insert(branch.begin(), branch.end());
    } else if (is_first) {
      common = branch;
      is_first = false;
    } else {
      Branch both;
      std::set_intersection(common.begin(), common.end(), branch.begin(), branch.end(),
                            std::inserter(both, both.begin()));
      common = both;
    }
  }
  common.insert(waits.begin(), waits.end());
  return common;
}

}  // namespace

Status Branches::Read(Graph* graph) {
  const std::size_t count = static_cast<std::size_t>(graph->num_node_ids());
  std::vector<tensorflow::ControlFlowInfo> frames;
  TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(graph, &frames));
  std::vector<Branch> of(count);
  std::map<Branch, int> numbers = {{Branch(), 0}};
  numbers_.assign(count, -1);
  Nodes order;
  tensorflow::GetReversePostOrder(*graph, &order);
  for (const Node* node : order) {
    const std::size_t id = static_cast<std::size_t>(node->id());
    if (node->IsMerge()) {
      of[id] = OfMerge(*node, of);
    } else {
      for (const Edge* edge : node->in_edges()) {
        const Branch branch = Along(*edge, of);
        of[id].insert(branch.begin(), branch.end());
      }
    }
    if (frames[id].frame != nullptr && !frames[id].frame->IsSource()) continue;
    numbers_[id] = numbers.emplace(of[id], static_cast<int>(numbers.size())).first->second;
  }
  return Status::OK();
}

}  // namespace ascpipe
