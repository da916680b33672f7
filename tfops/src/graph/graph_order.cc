#include "graph/graph_order.h"

#include <algorithm>
#include <iterator>

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

Nodes Origins(const Nodes& from, const char* type) {
  Nodes found;
  VisitSources(from, [&found, type](Node* node) {
    if (node->type_string() != type) return true;
    found.push_back(node);
    return false;
  });
  return found;
}

namespace {

// Returns true if a Switch is part of a loop. The Switch of a loop adds no branch, because nodes after the loop run
// regardless of the loop's predicate.
bool IsOfLoop(const Node& node) { return Source(&node, 1).node != nullptr && Source(&node, 1).node->IsLoopCond(); }

// Returns the branches that contain an edge: the branches of the edge's source and, if the source is a Switch, the side
// of the conditional.
Branch Along(const Edge& edge, const std::vector<Branch>& of) {
  Branch branch = of[At(edge.src()->id())];
  if (!edge.IsControlEdge() && edge.src()->IsSwitch() && !IsOfLoop(*edge.src())) {
    const Port decides = Source(edge.src(), 1);
    branch.emplace(decides.node == nullptr ? -1 : decides.node->id(), decides.index, edge.src_output());
  }
  return branch;
}

// Returns the branches of a Merge. A Merge runs when one of its data inputs is available. Therefore the Merge is in the
// branches that all data inputs share, and in all branches of the control inputs.
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

// Stores, for each node of a graph, which of the given nodes (the items) precede the node. Each set is a bit mask.
class Before {
 public:
  Before(const Graph& graph, const Nodes& nodes)
      : words_((nodes.size() + 63) / 64), items_(At(graph.num_node_ids()), -1) {
    for (std::size_t i = 0; i < nodes.size(); ++i) items_[IdOf(*nodes[i])] = static_cast<int>(i);
    bits_.resize(items_.size() * words_);
  }

  // Records that `node` follows `first` and all predecessors of `first`. Returns true if the set of `node` has grown.
  bool Add(const Node& first, const Node& node) {
    const Word* const known = bits_.data() + IdOf(first) * words_;
    Word* const own = bits_.data() + IdOf(node) * words_;
    bool is_new = false;
    for (std::size_t word = 0; word < words_; ++word) {
      is_new = is_new || (known[word] & ~own[word]) != 0;
      own[word] |= known[word];
    }
    const int item = items_[IdOf(first)];
    if (item < 0) return is_new;
    const Word bit = Word{1} << (item % 64);
    is_new = is_new || (own[item / 64] & bit) == 0;
    own[item / 64] |= bit;
    return is_new;
  }

  // Calls `each` with the index of each item that precedes a node.
  template <typename Each>
  void ForEach(const Node& node, const Each& each) const {
    for (std::size_t word = 0; word < words_; ++word) {
      Word left = bits_[IdOf(node) * words_ + word];
      for (int item = static_cast<int>(word) * 64; left != 0; ++item, left >>= 1) {
        if ((left & 1) != 0) each(item);
      }
    }
  }

 private:
  using Word = std::uint64_t;

  static std::size_t IdOf(const Node& node) { return At(node.id()); }

  std::size_t words_;
  std::vector<int> items_;
  std::vector<Word> bits_;
};

}  // namespace

std::vector<Branch> BranchesOf(const Graph& graph, const Nodes& order) {
  std::vector<Branch> of(At(graph.num_node_ids()));
  for (const Node* node : order) {
    Branch& own = of[At(node->id())];
    if (node->IsMerge()) {
      own = OfMerge(*node, of);
      continue;
    }
    for (const Edge* edge : node->in_edges()) {
      const Branch branch = Along(*edge, of);
      own.insert(branch.begin(), branch.end());
    }
  }
  return of;
}

Order OrderOf(const Graph& graph, const Nodes& order, const Nodes& nodes, const Absorbed& absorbed) {
  Before before(graph, nodes);
  for (bool again = true; again;) {  // repeated because of loops and replaced nodes
    again = false;
    for (const Node* node : order) {
      const auto inputs = absorbed.inputs.find(node);
      if (inputs != absorbed.inputs.end()) {
        for (const Node* input : inputs->second) again = before.Add(*input, *node) || again;
        continue;
      }
      for (const Edge* edge : node->in_edges()) {
        const auto into = edge->IsControlEdge() ? absorbed.into.find(edge->src()) : absorbed.into.end();
        again = before.Add(into == absorbed.into.end() ? *edge->src() : *into->second, *node) || again;
      }
    }
  }
  Order found(static_cast<int>(nodes.size()));
  for (Item item = 0; item < found.count(); ++item) {
    before.ForEach(*nodes[At(item)], [&found, item](Item first) { found.Know(first, item); });
  }
  return found;
}

}  // namespace step
}  // namespace ascpipe
