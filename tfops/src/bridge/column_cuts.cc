#include "bridge/column_cuts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// TensorFlow lets gradients that are used together wait for each other.
void WaitForWhole(Graph* graph, const Port& whole, Node* cut) {
  const std::vector<const Edge*> edges(cut->out_edges().begin(), cut->out_edges().end());
  for (const Edge* edge : edges) {
    if (!edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    graph->AddControlEdge(whole.node, edge->dst());
    graph->RemoveControlEdge(edge);
  }
}

Status CutSlice(Graph* graph, const Shapes& shapes, Node* slice) {
  const Port size = Source(slice, 2);
  std::int64_t column;
  if (Source(slice, 1).node->type_string() != "ConcatOffset" || !BeginOfSlice(shapes, Source(slice, 1), &column) ||
      size.node->type_string() != "ShapeN") {
    return Status::OK();
  }
  Node *begin, *shape;
  TF_RETURN_IF_ERROR(PlacePair(graph, 0, column, *slice, &begin));
  NodeBuilder builder(graph->NewName("ascpipe/shape"), "Shape", graph->op_registry());
  TF_RETURN_IF_ERROR(Place(graph, &builder.Input(Source(size.node, size.index).out()), {}, *slice, &shape));
  TF_RETURN_IF_ERROR(graph->UpdateEdge(begin, 0, slice, 1));
  return graph->UpdateEdge(shape, 0, slice, 2);
}

Status CutSplit(Graph* graph, const Shapes& shapes, const Port& whole, Node* split,
                const std::set<const Node*>& gone, Nodes* replaced) {
  Numbers sizes;
  if (!IsColumnAxis(Source(split, 2)) || !shapes.IsMatrix(whole) || !SizesOfSplit(shapes, Source(split, 1), &sizes) ||
      HasControlOutputs(split) || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) {
    return Status::OK();
  }
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
      TF_RETURN_IF_ERROR(Place(graph, &builder.Input(whole.out()).Input(begin).Input(size), {}, *split, &slice));
    }
    TF_RETURN_IF_ERROR(graph->UpdateEdge(slice, 0, edge->dst(), edge->dst_input()));
  }
  replaced->push_back(split);
  return Status::OK();
}

}  // namespace

Status CutColumns(Graph* graph, const Shapes& shapes, const Port& whole, const Nodes& readers, Nodes* replaced) {
  for (Node* reader : readers) {
    if (Is(reader, {"Slice", "SplitV"})) WaitForWhole(graph, whole, reader);
  }
  std::set<const Node*> gone(replaced->begin(), replaced->end());
  AddUnread(*graph, &gone);
  for (Node* reader : readers) {
    if (gone.count(reader) > 0) continue;
    if (reader->type_string() == "Slice") TF_RETURN_IF_ERROR(CutSlice(graph, shapes, reader));
    if (reader->type_string() == "SplitV") {
      TF_RETURN_IF_ERROR(CutSplit(graph, shapes, whole, reader, gone, replaced));
    }
  }
  return Status::OK();
}

}  // namespace ascpipe
