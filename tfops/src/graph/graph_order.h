// What comes before what in a graph.
#ifndef ASCPIPE_GRAPH_GRAPH_ORDER_H_
#define ASCPIPE_GRAPH_GRAPH_ORDER_H_

#include <map>

#include "graph/step_graph.h"
#include "step/order.h"

namespace ascpipe {
namespace step {

// The sources of the inputs that the op calls `name`.
Nodes InputsCalled(const tensorflow::Node& node, const char* name);

// The nodes of type `type` that the data of `from` comes from.
Nodes Origins(const Nodes& from, const char* type);

// Nodes that stand for others, in the order of a graph that will be.
struct Absorbed {
  std::map<const tensorflow::Node*, Nodes> inputs;            // of a node, all that it will come after
  std::map<const tensorflow::Node*, tensorflow::Node*> into;  // instead of a node, this one will be waited for
};

// The order of some nodes: items are places in `nodes`.
Order OrderOf(const tensorflow::Graph& graph, const Nodes& nodes, const Absorbed& absorbed);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_GRAPH_ORDER_H_
