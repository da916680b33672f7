#include "graph/rank_nodes.h"

#include <algorithm>
#include <vector>

namespace ascpipe {

using tensorflow::Edge;
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
  TF_RETURN_IF_ERROR(Repoint(graph, next, gate));
  graph->RemoveNode(next);
  *owned = {gate, static_cast<int>(types.size())};
  *ticket = {gate, source.index};
  return OkStatus();
}

Status ReadWhatCame(Graph* graph, Node* lookup, const Port& local) {
  const int k = IntOf(lookup, "k");
  std::vector<NodeBuilder::NodeOut> restore;
  for (int i = 0; i < k; ++i) restore.push_back(Source(lookup, 2 + i).out());
  Nodes before;
  AddControlInputs(lookup, &before);
  NodeBuilder builder = NewNode(graph, "restore_rows", "AscRestoreRows");
  builder.Input(local.out()).Input(Source(lookup, 1).out()).Input(restore).Input(Source(lookup, 2 + k).out());
  Node* node;
  TF_RETURN_IF_ERROR(Place(graph, &builder, before, *lookup, &node));
  return Repoint(graph, lookup, node);
}

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
  const Reached after(*graph, Reached::Way::kAfter, {backward});
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

Status RefuseGathered(const Node& sum) {
  Nodes readers;
  for (const Edge* edge : sum.out_edges()) {
    if (!edge->IsControlEdge() && edge->src_output() == 1) readers.push_back(edge->dst());
  }
  const Node* gathers = nullptr;
  VisitReaders(readers, [&gathers](const Node* node) {
    if (gathers == nullptr && node->type_string().compare(0, 7, "Horovod") == 0) gathers = node;
  });
  if (gathers == nullptr) return OkStatus();
  return Refuse(Code::kInvalidArgument, "'", gathers->name(), "' (", gathers->type_string(), ") gathers the gradient '",
                sum.name(),
                "' of a table, whose row numbers are meaningless on other ranks. Nothing was run. "
                "Average dense gradients alone (ascpipe.tf.DistributedOptimizer), and give the gradient of a table "
                "to its optimizer as it is: the rank that owns a key sums the gradients of all ranks");
}

}  // namespace ascpipe
