// Computes the order of a graph's nodes, and the conditionals that decide whether a node runs.
#ifndef ASCPIPE_GRAPH_GRAPH_ORDER_H_
#define ASCPIPE_GRAPH_GRAPH_ORDER_H_

#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "graph/step_graph.h"
#include "step/order.h"

namespace ascpipe {
namespace step {

// Returns the nodes of type `type` that produce data for `from`, directly or indirectly.
Nodes Origins(const Nodes& from, const char* type);

// Set of sides of conditionals. Each element is a triple: the id of the node that computes the predicate, the number of
// this node's output, and the side.
using Branch = std::set<std::tuple<int, int, int>>;

// For each node, returns the branches that contain the node. If a branch is not taken, nodes that depend on a node of
// the branch do not run. A branch ends at the Merge that joins the branches of the conditional. If several nodes have
// the same branches, either all or none of the nodes run, so one op may replace these nodes. `order` contains the nodes
// of the graph in reverse post-order.
std::vector<Branch> BranchesOf(const tensorflow::Graph& graph, const Nodes& order);

// Planned replacements of nodes. OrderOf returns the order of the nodes after the planned replacements.
struct Absorbed {
  std::unordered_map<const tensorflow::Node*, Nodes> inputs;  // by node: its predecessors after the replacements
  std::unordered_map<const tensorflow::Node*, tensorflow::Node*> into;  // by node: the node that replaces it
};

// Returns the order of `nodes`. Each item of the result is an index into `nodes`. `order` contains the nodes of the
// graph in reverse post-order.
Order OrderOf(const tensorflow::Graph& graph, const Nodes& order, const Nodes& nodes, const Absorbed& absorbed);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_GRAPH_ORDER_H_
