// What comes before what in a graph, and which conditionals decide whether a node runs.
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

// The nodes of type `type` that the data of `from` comes from.
Nodes Origins(const Nodes& from, const char* type);

// Sides of conditionals: what decides, an output of a node, and which side.
using Branch = std::set<std::tuple<int, int, int>>;

// By node, the branches that it is in.  What reads or waits for a branch that is not taken does not run either, up to
// the Merge where branches meet again.  Nodes of the same branches run all or none, so that one op may take the place
// of several.  `order`: the nodes of the graph in reverse post-order.
std::vector<Branch> BranchesOf(const tensorflow::Graph& graph, const Nodes& order);

// Nodes that stand for others, in the order of a graph that will be.
struct Absorbed {
  std::unordered_map<const tensorflow::Node*, Nodes> inputs;            // of a node, all that it will come after
  std::unordered_map<const tensorflow::Node*, tensorflow::Node*> into;  // instead of a node, this one is waited for
};

// The order of some nodes: items are places in `nodes`.  `order`: as of BranchesOf.
Order OrderOf(const tensorflow::Graph& graph, const Nodes& order, const Nodes& nodes, const Absorbed& absorbed);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_GRAPH_ORDER_H_
