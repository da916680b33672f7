#include "graph/cuts.h"

#include <map>
#include <numeric>
#include <vector>

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

Status CutSlice(Graph* graph, const Shapes& shapes, Node* slice) {
  std::int64_t column;
  if (!BeginOfSlice(shapes, Source(slice, 1), &column)) return Status::OK();
  const Port size = Source(slice, 2);
  Node *begin, *shape;
  TF_RETURN_IF_ERROR(PlacePair(graph, 0, column, *slice, &begin));
  NodeBuilder builder(graph->NewName("ascpipe/shape"), "Shape", graph->op_registry());
  TF_RETURN_IF_ERROR(Place(graph, &builder.Input(Source(size.node, size.index).out()), {}, *slice, &shape));
  TF_RETURN_IF_ERROR(graph->UpdateEdge(begin, 0, slice, 1));
  return graph->UpdateEdge(shape, 0, slice, 2);
}

Status CutSplit(Graph* graph, const Shapes& shapes, Node* split, const std::set<const Node*>& gone) {
  Numbers sizes;
  if (!SizesOfSplit(shapes, Source(split, 1), &sizes)) return Status::OK();
  std::map<int, Node*> slices;
  const std::vector<const Edge*> edges(split->out_edges().begin(), split->out_edges().end());
  for (const Edge* edge : edges) {
    if (edge->IsControlEdge() || gone.count(edge->dst()) > 0) continue;
    Node*& slice = slices[edge->src_output()];
    if (slice == nullptr) {
      const auto output = sizes.begin() + edge->src_output();
      Node *begin, *size;
      TF_RETURN_IF_ERROR(PlacePair(graph, 0, std::accumulate(sizes.begin(), output, std::int64_t{0}), *split, &begin));
      TF_RETURN_IF_ERROR(PlacePair(graph, -1, *output, *split, &size));
      NodeBuilder builder(graph->NewName("ascpipe/slice"), "Slice", graph->op_registry());
      builder.Input(Source(split, 0).out()).Input(begin).Input(size);
      TF_RETURN_IF_ERROR(Place(graph, &builder, {}, *split, &slice));
    }
    TF_RETURN_IF_ERROR(graph->UpdateEdge(slice, 0, edge->dst(), edge->dst_input()));
  }
  return Status::OK();
}

}  // namespace

void WaitForWhole(Graph* graph, Node* cut) {
  const std::vector<const Edge*> edges(cut->out_edges().begin(), cut->out_edges().end());
  for (const Edge* edge : edges) {
    if (!edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    graph->AddControlEdge(Source(cut, 0).node, edge->dst());
    graph->RemoveControlEdge(edge);
  }
}

Status CutOut(Graph* graph, const Shapes& shapes, Node* cut, const std::set<const Node*>& gone) {
  return cut->type_string() == "Slice" ? CutSlice(graph, shapes, cut) : CutSplit(graph, shapes, cut, gone);
}

}  // namespace step
}  // namespace ascpipe
