#include "graph/rank_sums.h"

#include <algorithm>

#include "graph/rank_nodes.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

Status PutAverage(Graph* graph, int ranks, Node* sum, Node** average) {
  tensorflow::Tensor value(tensorflow::DT_FLOAT, {});
  value.scalar<float>()() = static_cast<float>(ranks);
  Node* number;
  NodeBuilder constant = NewNode(graph, "ranks", "Const");
  TF_RETURN_IF_ERROR(Place(graph, &constant.Attr("dtype", value.dtype()).Attr("value", value), {}, *sum, &number));
  NodeBuilder dividing = NewNode(graph, "average_of_ranks", "RealDiv");
  return Place(graph, &dividing.Input(sum, 0).Input(number, 0), {}, *sum, average);
}

Status PutApplied(Graph* graph, Node* backward) {
  const After after(*graph, {backward});
  Nodes last;
  for (Node* node : graph->op_nodes()) {
    const auto& edges = node->out_edges();
    const bool read = std::any_of(edges.begin(), edges.end(), [](const Edge* edge) { return edge->dst()->IsOp(); });
    if (after.has(node) && !read) last.push_back(node);
  }
  NodeBuilder builder = NewNode(graph, "applied", "AscApplied");
  Node* applied;
  return Place(graph, &builder, last, *backward, &applied);
}

}  // namespace ascpipe
