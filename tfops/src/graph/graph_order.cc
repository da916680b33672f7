#include "graph/graph_order.h"

#include <set>
#include <utility>
#include <vector>

#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

Nodes InputsCalled(const Node& node, const char* name) {
  tensorflow::NameRangeMap ranges;
  Nodes found;
  if (!tensorflow::NameRangesForNode(node, node.op_def(), &ranges, nullptr).ok()) return found;
  if (ranges.count(name) == 0) return found;
  const std::pair<int, int> range = ranges.at(name);
  for (const Edge* edge : node.in_edges()) {
    if (edge->dst_input() >= range.first && edge->dst_input() < range.second) found.push_back(edge->src());
  }
  return found;
}

Nodes Origins(const Nodes& from, const char* type) {
  Nodes found, left = from;
  std::set<Node*> seen(from.begin(), from.end());
  while (!left.empty()) {
    Node* node = left.back();
    left.pop_back();
    if (node->type_string() == type) {
      found.push_back(node);
      continue;
    }
    for (const Edge* edge : node->in_edges()) {
      if (!edge->IsControlEdge() && seen.insert(edge->src()).second) left.push_back(edge->src());
    }
  }
  return found;
}

namespace {

// Sets of items, as bits, by node.
class Before {
 public:
  Before(const Graph& graph, const Nodes& nodes)
      : words_((nodes.size() + 63) / 64), items_(static_cast<std::size_t>(graph.num_node_ids()), -1) {
    for (std::size_t i = 0; i < nodes.size(); ++i) items_[IdOf(*nodes[i])] = static_cast<int>(i);
    bits_.resize(items_.size() * words_);
  }

  // Lets a node come after another one, and after all that this comes after.  Returns whether that is new.
  bool Add(const Node& first, const Node& node) {
    const Word* const known = bits_.data() + IdOf(first) * words_;
    Word* const own = bits_.data() + IdOf(node) * words_;
    bool is_new = false;
    for (std::size_t word = 0; word < words_; ++word) {
      is_new = is_new || (known[word] & ~own[word]) != 0;
      own[word] |= known[word];
    }
    const int item = items_[IdOf(first)];
    if (item < 0 || Has(node, item)) return is_new;
    own[At(item)] |= Word{1} << (item % 64);
    return true;
  }

  bool Has(const Node& node, int item) const { return (bits_[IdOf(node) * words_ + At(item)] >> (item % 64) & 1) != 0; }

 private:
  using Word = std::uint64_t;

  static std::size_t IdOf(const Node& node) { return static_cast<std::size_t>(node.id()); }
  static std::size_t At(int item) { return static_cast<std::size_t>(item) / 64; }

  std::size_t words_;
  std::vector<int> items_;
  std::vector<Word> bits_;
};

}  // namespace

Order OrderOf(const Graph& graph, const Nodes& nodes, const Absorbed& absorbed) {
  Before before(graph, nodes);
  Nodes order;
  tensorflow::GetReversePostOrder(graph, &order);
  for (bool again = true; again;) {  // a second time for loops, and for what stands for other nodes
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
    for (Item first = 0; first < found.count(); ++first) {
      if (before.Has(*nodes[static_cast<std::size_t>(item)], first)) found.Know(first, item);
    }
  }
  return found;
}

}  // namespace step
}  // namespace ascpipe
