#include "graph/step_graph.h"

#include <algorithm>
#include <string>

#include "bridge/compatibility.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

void ByName(Nodes* nodes) {
  std::sort(nodes->begin(), nodes->end(), [](const Node* a, const Node* b) { return a->name() < b->name(); });
}

Port Source(const Node* node, int place) {
  const Edge* edge = nullptr;
  return node->input_edge(place, &edge).ok() ? Port{edge->src(), edge->src_output()} : Port();
}

bool Is(const Node* node, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(), [node](const char* type) { return node->type_string() == type; });
}

bool ReadTensor(const Node* node, tensorflow::Tensor* tensor) {
  const tensorflow::TensorProto* proto = nullptr;
  return node->IsConstant() && tensorflow::GetNodeAttr(node->attrs(), "value", &proto).ok() &&
         tensor->FromProto(*proto);
}

bool ReadNumbers(const Port& port, Numbers* numbers) {
  tensorflow::Tensor tensor;
  if (port.node == nullptr || !ReadTensor(port.node, &tensor)) return false;
  numbers->clear();
  for (tensorflow::int64 i = 0; i < tensor.NumElements(); ++i) {
    if (tensor.dtype() == tensorflow::DT_INT32) {
      numbers->push_back(tensor.flat<tensorflow::int32>()(i));
    } else if (tensor.dtype() == tensorflow::DT_INT64) {
      numbers->push_back(tensor.flat<tensorflow::int64>()(i));
    } else {
      return false;
    }
  }
  return true;
}

bool IsNumber(const Port& port, std::int64_t number) {
  Numbers numbers;
  return ReadNumbers(port, &numbers) && numbers == Numbers{number};
}

int IntOf(const Node* node, const char* attr) {
  int value = 0;
  return tensorflow::GetNodeAttr(node->attrs(), attr, &value).ok() ? value : -1;
}

bool HasControlOutputs(const Node* node) {
  const auto& edges = node->out_edges();
  return std::any_of(edges.begin(), edges.end(), [](const Edge* e) { return e->IsControlEdge() && e->dst()->IsOp(); });
}

void AddControlInputs(const Node* node, Nodes* found) {
  for (const Edge* edge : node->in_edges()) {
    if (edge->IsControlEdge() && edge->src()->IsOp()) found->push_back(edge->src());
  }
}

Nodes Updates(const Nodes& variables) {
  Nodes updates, left = variables;
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    for (const Edge* edge : node->out_edges()) {
      Node* user = edge->dst();
      if (edge->IsControlEdge() || !user->IsOp() || !tensorflow::IsRefType(user->input_type(edge->dst_input())))
        continue;
      if (user->type_string() == "RefSwitch") {
        left.push_back(user);
      } else if (!Is(user, {"AscLookup", "AscNextPlan", "Assign"})) {
        updates.push_back(user);
      }
    }
  }
  ByName(&updates);
  return updates;
}

Reached::Reached(const tensorflow::Graph& graph, Way way, const Nodes& nodes)
    : reached_(static_cast<std::size_t>(graph.num_node_ids())) {
  Nodes left = nodes;
  while (!left.empty()) {
    const Node* const from = left.back();
    left.pop_back();
    for (const Edge* edge : way == Way::kAfter ? from->out_edges() : from->in_edges()) {
      Node* const node = way == Way::kAfter ? edge->dst() : edge->src();
      if (has(node)) continue;
      reached_[static_cast<std::size_t>(node->id())] = true;
      left.push_back(node);
    }
  }
}

Status Place(Graph* graph, NodeBuilder* builder, const Nodes& after, const Node& beside, Node** node) {
  TF_RETURN_IF_ERROR(builder->ControlInputs(after).Device(beside.requested_device()).Finalize(graph, node));
  (*node)->set_assigned_device_name(beside.assigned_device_name());
  return OkStatus();
}

Status PlacePair(Graph* graph, std::int64_t first, std::int64_t second, const Node& beside, Node** node) {
  tensorflow::Tensor value(tensorflow::DT_INT32, {2});
  value.flat<tensorflow::int32>()(0) = static_cast<tensorflow::int32>(first);
  value.flat<tensorflow::int32>()(1) = static_cast<tensorflow::int32>(second);
  NodeBuilder builder(graph->NewName("ascpipe/columns"), "Const", graph->op_registry());
  return Place(graph, &builder.Attr("dtype", value.dtype()).Attr("value", value), {}, beside, node);
}

Status Repoint(Graph* graph, Node* before, Node* now) {
  std::vector<Port> outputs;
  for (int i = 0; i < before->num_outputs(); ++i) outputs.push_back({now, i});
  return Repoint(graph, before, outputs, now);
}

Status Repoint(Graph* graph, Node* before, const std::vector<Port>& outputs, Node* waited_for, const Node* except) {
  const std::vector<const Edge*> edges(before->out_edges().begin(), before->out_edges().end());
  for (const Edge* edge : edges) {
    if (edge->dst() == except) continue;
    if (edge->IsControlEdge()) {
      graph->AddControlEdge(waited_for, edge->dst());
      graph->RemoveControlEdge(edge);
      continue;
    }
    const std::size_t place = static_cast<std::size_t>(edge->src_output());
    if (place >= outputs.size() || outputs[place].node == nullptr) continue;
    TF_RETURN_IF_ERROR(graph->UpdateEdge(outputs[place].node, outputs[place].index, edge->dst(), edge->dst_input()));
  }
  return OkStatus();
}

}  // namespace ascpipe
