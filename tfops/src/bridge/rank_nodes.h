// Nodes that stand in the graph of a step of several ranks beside the program's.
#ifndef ASCPIPE_BRIDGE_RANK_NODES_H_
#define ASCPIPE_BRIDGE_RANK_NODES_H_

#include <string>
#include <vector>

#include "bridge/status.h"
#include "bridge/step_graph.h"

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

// Gives a sum of what came from all ranks the attributes of the program's.
inline tensorflow::Status DescribeSum(const tensorflow::Node& sum, tensorflow::NodeBuilder* builder) {
  std::vector<int> dims;
  std::vector<bool> partial;
  if (sum.type_string() == "AscSum") {
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(sum.attrs(), "dims", &dims));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(sum.attrs(), "partial", &partial));
  } else {
    dims.push_back(IntOf(&sum, "dim"));
    partial.push_back(IsTrue(sum, "partial"));
  }
  builder->Attr("dim", dims.front()).Attr("partial", partial == std::vector<bool>{true});
  return tensorflow::Status::OK();
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_RANK_NODES_H_
