#include "graph/rank_gate.h"

#include <vector>

#include "graph/rank_nodes.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

Status PutGate(Graph* graph, const GatedStep& step, Port* ticket, Port* owned) {
  Port source = *ticket;
  while (Is(source.node, {"Identity"})) source = Source(source.node, 0);
  if (!Is(source.node, {"IteratorGetNext", "IteratorGetNextSync"})) {
    return NotBuiltForRanks(*source.node, "a batch that does not come from get_next() of an iterator");
  }
  Node* const next = source.node;
  std::vector<tensorflow::DataType> types;
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(next->attrs(), "output_types", &types));
  TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(next->attrs(), "output_shapes", &shapes));
  const std::vector<tensorflow::PartialTensorShape> unknown(types.size());
  Nodes before;
  AddControlInputs(next, &before);
  Node *optional, *has, *nothing, *filler, *chosen, *values, *gate;
  NodeBuilder asking = NodeFor(*graph, *next, "IteratorGetNextAsOptional");
  asking.Input(Source(next, 0).out()).Attr("output_types", types).Attr("output_shapes", shapes).ControlInputs(before);
  TF_RETURN_IF_ERROR(Place(graph, &asking, {}, *next, &optional));
  NodeBuilder having = NewNode(graph, "has_batch", "OptionalHasValue");
  TF_RETURN_IF_ERROR(Place(graph, &having.Input(optional, 0), {}, *next, &has));
  NodeBuilder lacking = NewNode(graph, "nothing", "AscNothing");
  TF_RETURN_IF_ERROR(Place(graph, &lacking.Attr("T", types), {}, *next, &nothing));
  std::vector<NodeBuilder::NodeOut> parts;
  for (std::size_t i = 0; i < types.size(); ++i) parts.emplace_back(nothing, static_cast<int>(i));
  NodeBuilder filling = NewNode(graph, "no_batch", "OptionalFromValue");
  TF_RETURN_IF_ERROR(Place(graph, &filling.Input(parts), {}, *next, &filler));
  NodeBuilder choosing = NewNode(graph, "batch_or_none", "AscChoose");
  TF_RETURN_IF_ERROR(Place(graph, &choosing.Input(has, 0).Input(optional, 0).Input(filler, 0), {}, *next, &chosen));
  NodeBuilder getting = NewNode(graph, "batch", "OptionalGetValue");
  getting.Input(chosen, 0).Attr("output_types", types).Attr("output_shapes", unknown);
  TF_RETURN_IF_ERROR(Place(graph, &getting, {}, *next, &values));
  parts.clear();
  for (std::size_t i = 0; i < types.size(); ++i) parts.emplace_back(values, static_cast<int>(i));
  NodeBuilder gating = NewNode(graph, "gate", "AscGate");
  gating.Input(has, 0).Input(parts).Attr("stream", step.stream).Attr("ticket", source.index);
  gating.Attr("training", step.training).Attr("tables", step.used).Attr("shapes", shapes);
  TF_RETURN_IF_ERROR(Place(graph, &gating, {}, *next, &gate));
  std::vector<int> outputs;
  for (std::size_t i = 0; i < types.size(); ++i) outputs.push_back(static_cast<int>(i));
  TF_RETURN_IF_ERROR(Repoint(graph, next, gate, outputs));
  graph->RemoveNode(next);
  *owned = {gate, static_cast<int>(types.size())};
  *ticket = {gate, source.index};
  return Status::OK();
}

}  // namespace ascpipe
