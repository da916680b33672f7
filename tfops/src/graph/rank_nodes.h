// Nodes that stand in the graph of a step of several ranks beside the program's.
#ifndef ASCPIPE_GRAPH_RANK_NODES_H_
#define ASCPIPE_GRAPH_RANK_NODES_H_

#include <string>

#include "bridge/status.h"
#include "graph/step_graph.h"

namespace ascpipe {

// A stateful op for one of the program's: a session caches its kernel by name, for all sets of fetches.
inline tensorflow::NodeBuilder NodeFor(const tensorflow::Graph& graph, const tensorflow::Node& stands_for,
                                       const char* type) {
  return tensorflow::NodeBuilder(stands_for.name() + "/ascpipe_ranks", type, graph.op_registry());
}

inline tensorflow::NodeBuilder NewNode(tensorflow::Graph* graph, const char* name, const char* type) {
  return tensorflow::NodeBuilder(graph->NewName(std::string("ascpipe/") + name), type, graph->op_registry());
}

inline tensorflow::Status NotBuiltForRanks(const tensorflow::Node& node, const char* what) {
  return Refuse(Code::kFailedPrecondition, "'", node.name(), "' (", node.type_string(), "): ", what,
                " cannot be trained by several ranks yet. Nothing was run; train it in one process");
}

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_RANK_NODES_H_
