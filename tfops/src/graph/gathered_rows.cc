#include "graph/gathered_rows.h"

#include <set>

#include "bridge/status.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Node;
using tensorflow::Status;

Status RefuseGathered(const Node& sum) {
  std::set<const Node*> seen;
  Nodes left;
  for (const Edge* edge : sum.out_edges()) {
    if (!edge->IsControlEdge() && edge->src_output() == 1) left.push_back(edge->dst());
  }
  while (!left.empty()) {
    Node* const node = left.back();
    left.pop_back();
    if (!seen.insert(node).second) continue;
    if (node->type_string().compare(0, 7, "Horovod") == 0) {
      return Refuse(Code::kInvalidArgument, "'", node->name(), "' (", node->type_string(), ") gathers the gradient '",
                    sum.name(),
                    "' of a table, whose numbers of rows mean nothing on other ranks. Nothing was run. "
                    "Average dense gradients alone (ascpipe.tf.DistributedOptimizer), and give the gradient of a table "
                    "to its optimizer as it is: the owners of its keys sum those of all ranks");
    }
    for (const Edge* edge : node->out_edges()) {
      if (!edge->IsControlEdge()) left.push_back(edge->dst());
    }
  }
  return Status::OK();
}

}  // namespace ascpipe
