// Fusion within one step: the plans of all tables become one op, and so do their updates.
//
// An op costs the executor some microseconds, a plan twice as much, as it is asynchronous: with many tables and small
// batches more than its work.  The plans of a batch become AscPlans, the updates by one formula with the same
// parameters AscUpdate.  Ops of which one waits for another stay apart, and those of different branches; so do all
// plans of a step that evaluates, whose order OrderStep makes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "bridge/step_branches.h"
#include "bridge/step_graph.h"
#include "bridge/step_pass.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// States and parameters of each formula: the inputs of its op, before the gradient and the indices.
struct Formula {
  int states;
  int numbers;
};
const std::map<std::string, Formula>& Formulas() {
  static const auto* const formulas = new std::map<std::string, Formula>{
      {"AscApplyGradientDescent", {1, 2}}, {"AscApplyAdagrad", {2, 1}}, {"AscApplyLazyAdam", {3, 6}},
      {"AscApplyFtrl", {3, 5}}};
  return *formulas;
}

std::string NameOf(const Port& port) { return port.node->name() + ":" + std::to_string(port.index); }

// A parameter: the number itself, or where it comes from.
std::string Parameter(const Port& port) {
  tensorflow::Tensor value;
  if (!ReadTensor(port.node, &value) || value.dtype() != tensorflow::DT_FLOAT || value.NumElements() != 1) {
    return NameOf(port);
  }
  std::uint32_t bits;
  std::memcpy(&bits, value.flat<float>().data(), sizeof(bits));
  return "bits " + std::to_string(bits);
}

class TableFusion {
 public:
  explicit TableFusion(Graph* graph) : graph_(*graph) {
    for (Node* node : graph_.op_nodes()) {
      if (IsPlan(*node)) plans_.push_back(node);
      if (Formulas().count(node->type_string()) > 0) updates_.push_back(node);
    }
    evaluates_ = std::any_of(plans_.begin(), plans_.end(), [](const Node* plan) { return !IsTrue(*plan, "training"); });
  }

  Status Apply() {
    if (plans_.size() + updates_.size() < 2) return Status::OK();
    TF_RETURN_IF_ERROR(branches_.Read(&graph_));
    Groups plans, updates;
    for (Node* plan : plans_) Sort(plan, KeyOfPlan(*plan), &plans);
    for (Node* update : updates_) Sort(update, KeyOfUpdate(*update), &updates);
    for (auto& group : plans) {
      if (MayBeOne(&group.second)) TF_RETURN_IF_ERROR(PlanTogether(group.second));
    }
    for (auto& group : updates) {
      if (MayBeOne(&group.second)) TF_RETURN_IF_ERROR(UpdateTogether(group.second));
    }
    for (Node* node : replaced_) graph_.RemoveNode(node);
    if (!replaced_.empty()) tensorflow::FixupSourceAndSinkEdges(&graph_);
    return Status::OK();
  }

 private:
  using Groups = std::map<std::string, Nodes>;  // nodes that have the same key

  void Sort(Node* node, const std::string& key, Groups* groups) const {
    if (!key.empty() && branches_.Of(*node) >= 0) (*groups)[key].push_back(node);
  }

  // What two ops must have in common to become one: device and branch, and what they wait for besides their inputs.
  std::string Circumstances(const Node& node) const {
    Nodes after;
    AddControlInputs(&node, &after);
    ByName(&after);
    std::string text =
        node.type_string() + " " + node.assigned_device_name() + " " + std::to_string(branches_.Of(node));
    for (const Node* one : after) text += " ^" + one->name();
    return text;
  }

  // Plans of one batch; "": stays as it is.
  std::string KeyOfPlan(const Node& plan) const {
    std::vector<int> widths;
    const bool is_expansion =
        !tensorflow::GetNodeAttr(plan.attrs(), "slot_widths", &widths).ok() || !widths.empty();
    if (evaluates_ || is_expansion || !AreVariables(plan, 1, IntOf(&plan, "n_state"))) return "";
    return Circumstances(plan) + " " + NameOf(Source(&plan, 0)) + " " + std::to_string(IntOf(&plan, "stream"));
  }

  // Updates by one formula with the same parameters; "": stays as it is.
  std::string KeyOfUpdate(const Node& update) const {
    const Formula formula = Formulas().at(update.type_string());
    if (IsTrue(update, "use_locking") || !AreVariables(update, 0, formula.states)) return "";
    std::string key = Circumstances(update) + " " + std::to_string(update.input_type(update.num_inputs() - 1));
    const int gradient = formula.states + formula.numbers;
    for (int i = formula.states; i < gradient; ++i) key += " " + Parameter(Source(&update, i));
    return key;
  }

  static bool AreVariables(const Node& node, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      if (Source(&node, i).node->type_string() != "VariableV2") return false;
    }
    return true;
  }

  bool MayBeOne(Nodes* nodes) const {
    ByName(nodes);
    return nodes->size() > 1 && !After(graph_, *nodes).has_any(*nodes);
  }

  Status PlanTogether(const Nodes& plans) {
    std::vector<NodeBuilder::NodeOut> state;
    std::vector<int> tables, features, states, send_counts;
    std::vector<float> initial;
    for (const Node* plan : plans) {
      tables.push_back(IntOf(plan, "table"));
      features.push_back(IntOf(plan, "k"));
      states.push_back(IntOf(plan, "n_state"));
      send_counts.push_back(IntOf(plan, "send_count"));
      for (int i = 0; i < states.back(); ++i) state.push_back(Source(plan, 1 + i).out());
      std::vector<float> values;
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(plan->attrs(), "slot_initial", &values));
      initial.insert(initial.end(), values.begin(), values.end());
    }
    NodeBuilder builder(graph_.NewName("ascpipe/plan_together"), "AscPlans", graph_.op_registry());
    builder.Input(Source(plans[0], 0).out()).Input(state);
    builder.Attr("tables", tables).Attr("features", features).Attr("states", states).Attr("slot_initial", initial);
    builder.Attr("send_counts", send_counts);
    builder.Attr("stream", IntOf(plans[0], "stream")).Attr("training", true);
    builder.Attr("n", static_cast<int>(plans.size()));
    builder.Attr("k", std::accumulate(features.begin(), features.end(), 0));
    Node* together;
    TF_RETURN_IF_ERROR(Put(&builder, plans, &together));
    int restore = static_cast<int>(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      std::vector<int> outputs = {static_cast<int>(i)};
      for (int feature = 0; feature < features[i]; ++feature) outputs.push_back(restore++);
      TF_RETURN_IF_ERROR(Repoint(&graph_, plans[i], together, outputs));
    }
    return Status::OK();
  }

  Status UpdateTogether(const Nodes& updates) {
    const Formula formula = Formulas().at(updates[0]->type_string());
    const int gradient = formula.states + formula.numbers;
    std::vector<NodeBuilder::NodeOut> states, numbers, gradients, indices;
    for (const Node* update : updates) {
      for (int i = 0; i < formula.states; ++i) states.push_back(Source(update, i).out());
      gradients.push_back(Source(update, gradient).out());
      indices.push_back(Source(update, gradient + 1).out());
    }
    for (int i = formula.states; i < gradient; ++i) numbers.push_back(Source(updates[0], i).out());
    NodeBuilder builder(graph_.NewName("ascpipe/update_together"), "AscUpdate", graph_.op_registry());
    builder.Input(states).Input(numbers).Input(gradients).Input(indices);
    builder.Attr("rule", updates[0]->type_string());
    Node* together;
    TF_RETURN_IF_ERROR(Put(&builder, updates, &together));
    for (Node* update : updates) TF_RETURN_IF_ERROR(Repoint(&graph_, update, together, {}));
    return Status::OK();
  }

  // Adds a node that waits for what the others wait for, and takes their place.
  Status Put(NodeBuilder* builder, const Nodes& others, Node** node) {
    Nodes after;
    AddControlInputs(others[0], &after);
    replaced_.insert(replaced_.end(), others.begin(), others.end());
    return Place(&graph_, builder, after, *others[0], node);
  }

  Graph& graph_;
  Branches branches_;
  bool evaluates_;  // whether the step does
  Nodes plans_, updates_, replaced_;
};

}  // namespace

Status FuseTables(tensorflow::Graph* graph) { return TableFusion(graph).Apply(); }

}  // namespace ascpipe
