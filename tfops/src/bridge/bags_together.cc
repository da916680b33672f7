// Fusion within one step: what combines bags of all tables becomes one op, and so do the sums of their gradients.
//
// Programs on feature columns have some fifty tables, with little to do for each.  Ops of which one comes after another
// stay apart, and those of different branches; so do lookups that the program orders after an update of a table.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bridge/bag_nodes.h"
#include "bridge/step_branches.h"
#include "bridge/step_graph.h"
#include "bridge/step_pass.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::Status;

namespace {

class BagsTogether {
 public:
  explicit BagsTogether(Graph* graph) : graph_(*graph) {}

  Status Apply() {
    Nodes combines, sums;
    bool changes = false;
    for (Node* node : graph_.op_nodes()) {
      if (IsCombineOfTable(*node)) combines.push_back(node);
      if (IsSumOfBags(*node)) sums.push_back(node);
      changes = changes || IsChange(*node);
    }
    if (combines.size() + sums.size() < 2) return Status::OK();
    TF_RETURN_IF_ERROR(branches_.Read(&graph_));
    for (const auto& group : Sort(combines)) {
      for (const Nodes& nodes : Layers(group.second)) {
        if (nodes.size() > 1 && MayRead(nodes, changes)) TF_RETURN_IF_ERROR(Combine(nodes));
      }
    }
    for (const auto& group : Sort(sums)) {
      for (const Nodes& nodes : Layers(group.second)) {
        if (nodes.size() > 1) TF_RETURN_IF_ERROR(Sum(nodes));
      }
    }
    for (Node* node : replaced_) graph_.RemoveNode(node);
    if (!replaced_.empty()) tensorflow::FixupSourceAndSinkEdges(&graph_);
    return Status::OK();
  }

 private:
  // By device and branch, the nodes that one op may stand for.
  std::map<std::string, Nodes> Sort(const Nodes& nodes) const {
    std::map<std::string, Nodes> groups;
    for (Node* node : nodes) {
      const int branch = branches_.Of(*node);
      if (branch < 0) continue;
      groups[node->assigned_device_name() + " " + std::to_string(branch)].push_back(node);
    }
    return groups;
  }

  // Nodes of which none comes after another one, in as few sets as that allows.
  std::vector<Nodes> Layers(Nodes nodes) const {
    std::vector<Nodes> layers;
    ByName(&nodes);
    while (!nodes.empty()) {
      const After later(graph_, nodes);
      const auto rest = std::stable_partition(nodes.begin(), nodes.end(),
                                              [&later](const Node* node) { return !later.has(node); });
      layers.emplace_back(nodes.begin(), rest);
      nodes.erase(nodes.begin(), rest);
    }
    return layers;
  }

  bool MayRead(const Nodes& nodes, bool changes) const {
    CombineNode combine;
    Nodes variables;
    std::vector<int> tables;
    for (const Node* node : nodes) {
      if (!AddCombine(*node, &combine).ok()) return false;
    }
    for (const CombineNode::Feature& feature : combine.features) {
      variables.push_back(feature.rows.node);
      tables.push_back(feature.table);
    }
    return MayReadAt(graph_, variables, tables, changes, nodes);
  }

  Status Combine(const Nodes& nodes) {
    CombineNode combine;
    Nodes after;
    for (const Node* node : nodes) {
      TF_RETURN_IF_ERROR(AddCombine(*node, &combine));
      AddControlInputs(node, &after);
    }
    Node* together;
    TF_RETURN_IF_ERROR(PlaceCombine(&graph_, "ascpipe/combine_together", combine, after, *nodes[0], &together));
    int output = 0;
    for (Node* node : nodes) {
      std::vector<int> outputs;
      for (int i = 0; i < node->num_outputs(); ++i) outputs.push_back(output++);
      TF_RETURN_IF_ERROR(Repoint(&graph_, node, together, outputs));
    }
    replaced_.insert(replaced_.end(), nodes.begin(), nodes.end());
    return Status::OK();
  }

  Status Sum(const Nodes& nodes) {
    SumNode sum;
    Nodes after;
    for (const Node* node : nodes) {
      TF_RETURN_IF_ERROR(AddSum(*node, &sum));
      AddControlInputs(node, &after);
    }
    Node* together;
    TF_RETURN_IF_ERROR(PlaceSum(&graph_, sum, after, *nodes[0], &together));
    const int tables = static_cast<int>(sum.tables.size());
    int table = 0;
    for (Node* node : nodes) {
      const int own = node->num_outputs() / 2;
      std::vector<int> outputs;
      for (int i = 0; i < own; ++i) outputs.push_back(table + i);
      for (int i = 0; i < own; ++i) outputs.push_back(tables + table + i);
      table += own;
      TF_RETURN_IF_ERROR(Repoint(&graph_, node, together, outputs));
    }
    replaced_.insert(replaced_.end(), nodes.begin(), nodes.end());
    return Status::OK();
  }

  Graph& graph_;
  Branches branches_;
  Nodes replaced_;
};

}  // namespace

Status CombineTablesTogether(tensorflow::Graph* graph) { return BagsTogether(graph).Apply(); }

}  // namespace ascpipe
