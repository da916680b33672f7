#include "graph/numbered.h"

#include "bridge/compatibility.h"

namespace ascpipe {
namespace step {

using tensorflow::Node;

Numbered::Numbered(tensorflow::Graph* graph, Reading* reading) : graph(*graph), reading(*reading), step(reading->step) {
  for (Node* node : graph->op_nodes()) {
    const std::string& type = node->type_string();
    if (type.compare(0, 3, "Asc") == 0 || type == "ConcatV2") by_type_[type].push_back(node);
    has_control_flow_ = has_control_flow_ || node->IsControlFlow();
  }
  for (auto& entry : by_type_) ByName(&entry.second);
}

tensorflow::Status Numbered::ReadLoops() {
  return has_control_flow_ ? tensorflow::BuildControlFlowInfo(&graph, &frames_) : OkStatus();
}

Item Numbered::ItemOf(Node* node) {
  const auto entry = items_.emplace(node, static_cast<Item>(items_.size()));
  if (entry.second) reading.ops.push_back(node);
  return entry.first->second;
}

Items Numbered::ItemsOf(const Nodes& nodes) {
  Items items;
  for (Node* node : nodes) items.push_back(ItemOf(node));
  return items;
}

Value Numbered::ValueOf(const Port& port) {
  const auto entry = values_.emplace(std::make_pair(port.node, port.index), static_cast<Value>(values_.size()));
  if (entry.second) reading.values.push_back(port);
  return entry.first->second;
}

int Numbered::LoopOf(const Node& node) {
  if (frames_.empty()) return 0;
  const Node* const frame = frames_[At(node.id())].frame;
  if (frame == nullptr || frame->IsSource()) return 0;
  return loops_.emplace(frame, static_cast<int>(loops_.size()) + 1).first->second;
}

}  // namespace step
}  // namespace ascpipe
