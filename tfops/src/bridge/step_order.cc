// Order within one step: ops that read rows come before ops that move or update them.
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bridge/bag_nodes.h"
#include "bridge/status.h"
#include "bridge/step_graph.h"
#include "bridge/step_pass.h"
#include "tensorflow/core/graph/control_flow.h"
#include "tensorflow/core/graph/node_builder.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::Status;

namespace {

bool StartsWith(const std::string& text, const std::string& begin) { return text.compare(0, begin.size(), begin) == 0; }

// The sources of the inputs that the op calls `name`.
Nodes InputsCalled(const Node& node, const char* name) {
  tensorflow::NameRangeMap ranges;
  Nodes found;
  if (!tensorflow::NameRangesForNode(node, node.op_def(), &ranges, nullptr).ok()) return found;
  if (ranges.count(name) == 0) return found;
  const std::pair<int, int> range = ranges.at(name);
  for (const Edge* edge : node.in_edges()) {
    if (edge->dst_input() >= range.first && edge->dst_input() < range.second) found.push_back(edge->src());
  }
  return found;
}

// The nodes of type `type` that the data of `from` comes from.
Nodes Origins(const Nodes& from, const char* type) {
  Nodes found, left = from;
  std::set<Node*> seen(from.begin(), from.end());
  while (!left.empty()) {
    Node* node = left.back();
    left.pop_back();
    if (node->type_string() == type) {
      found.push_back(node);
      continue;
    }
    for (const Edge* edge : node->in_edges()) {
      if (!edge->IsControlEdge() && seen.insert(edge->src()).second) left.push_back(edge->src());
    }
  }
  return found;
}

bool IsAfter(const Graph& graph, Node* first, Node* last) { return After(graph, {first}).has(last); }

// An evaluation lookup and its plans.
struct Evaluation {
  Node* lookup;
  Nodes plans;
};

class StepOrder {
 public:
  explicit StepOrder(Graph* graph) : graph_(*graph) {
    for (Node* node : graph_.op_nodes()) {
      if (IsChange(*node)) changes_.push_back(node);
      if (Is(node, {"AscLookup", "AscCombine", "AscCombineWeightsGrad"}) || IsSumOfBags(*node) || IsRead(*node)) {
        lookups_.push_back(node);
      }
      if (node->type_string() == "AscReadRows") reads_.push_back(node);
      if (node->type_string() == "AscWriteRows" || IsByAddress(*node)) writes_.push_back(node);
    }
    for (Nodes* nodes : {&changes_, &lookups_, &reads_, &writes_}) ByName(nodes);
  }

  Status Apply() {
    if (changes_.empty() || (lookups_.empty() && reads_.empty())) return Status::OK();
    FindEvaluations();
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph_, &frames_));
    if (!evaluations_.empty()) TF_RETURN_IF_ERROR(OrderEvaluations());
    for (Node* lookup : lookups_) Order({lookup}, Updates(InputsCalled(*lookup, "rows")));
    for (Node* read : reads_) Order({read}, WritesThrough(Origins(InputsCalled(*read, "handles"), "AscLocalRows")));
    return Status::OK();
  }

 private:
  // AscRead of bags, or of tables.
  static bool IsRead(const Node& node) {
    return node.type_string() == "AscRead" &&
           (IsCombineOfTable(node) || Source(&node, 0).node->type_string() != "AscForward");
  }

  static bool IsByAddress(const Node& node) {
    return StartsWith(node.type_string(), "AscApply") && !InputsCalled(node, "handles").empty();
  }

  Status OrderEvaluations() {
    Nodes early;  // plans of evaluations that come before every change
    if (After(graph_, changes_).has_any(EvaluationLookups())) {
      TF_RETURN_IF_ERROR(PlanAfterwards());
      const After changed(graph_, changes_);
      Nodes late;
      for (const Evaluation& evaluation : evaluations_) {
        if (changed.has(evaluation.lookup)) {
          late.push_back(evaluation.lookup);
        } else {
          early.insert(early.end(), evaluation.plans.begin(), evaluation.plans.end());
        }
      }
      OrderOneByOne();
      Order(late, writes_);
    } else {
      TF_RETURN_IF_ERROR(LookUpFirst());
      for (const Evaluation& evaluation : evaluations_) {
        early.insert(early.end(), evaluation.plans.begin(), evaluation.plans.end());
      }
    }
    return TakeTurn(early);
  }

  void FindEvaluations() {
    for (Node* lookup : lookups_) {
      Evaluation found = {lookup, {}};
      for (Node* plan : Origins(InputsCalled(*lookup, "slots"), "AscNextPlan")) {
        if (!IsTrue(*plan, "training")) found.plans.push_back(plan);
      }
      if (!found.plans.empty()) evaluations_.push_back(found);
    }
  }

  Nodes EvaluationLookups() const {
    Nodes lookups;
    for (const Evaluation& evaluation : evaluations_) lookups.push_back(evaluation.lookup);
    return lookups;
  }

  // All lookups before all changes: through one node in the middle, which keeps the number of edges linear.
  Status LookUpFirst() {
    tensorflow::NodeBuilder builder(graph_.NewName("ascpipe/evaluation_first"), "NoOp");
    for (const Evaluation& evaluation : evaluations_) builder.ControlInput(evaluation.lookup);
    Node* between;
    TF_RETURN_IF_ERROR(Build(&builder, *changes_[0], &between));
    for (Node* change : changes_) graph_.AddControlEdge(between, change);
    return Status::OK();
  }

  // The step's turn to train comes before its evaluations: no other step trains between these and the claim.
  Status TakeTurn(const Nodes& evaluation_plans) {
    const auto found = std::find_if(changes_.begin(), changes_.end(), [](const Node* node) { return IsPlan(*node); });
    if (found == changes_.end()) return Status::OK();
    const Edge* ticket;
    TF_RETURN_IF_ERROR((*found)->input_edge(0, &ticket));
    Nodes plans;  // without those that the training batch depends on
    for (Node* plan : evaluation_plans) {
      if (!IsAfter(graph_, plan, ticket->src())) plans.push_back(plan);
    }
    if (plans.empty()) return Status::OK();
    int table, stream;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr((*found)->attrs(), "table", &table));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr((*found)->attrs(), "stream", &stream));
    tensorflow::NodeBuilder builder(graph_.NewName("ascpipe/turn"), "AscTurn");
    builder.Input(ticket->src(), ticket->src_output()).Attr("table", table).Attr("stream", stream);
    const After later(graph_, plans);
    std::set<Node*> batches;  // no other op waits for the lease while these are computed
    for (const Node* plan : plans) {
      for (const Edge* edge : plan->in_edges()) {
        if (edge->src()->IsOp() && !later.has(edge->src())) batches.insert(edge->src());
      }
    }
    for (Node* batch : batches) builder.ControlInput(batch);
    Node* turn;
    TF_RETURN_IF_ERROR(Build(&builder, **found, &turn));
    for (Node* plan : plans) graph_.AddControlEdge(turn, plan);
    return Status::OK();
  }

  // A node beside another one: on its device, in its frame.
  Status Build(tensorflow::NodeBuilder* builder, const Node& beside, Node** node) {
    TF_RETURN_IF_ERROR(builder->Device(beside.requested_device()).Finalize(&graph_, node));
    (*node)->set_assigned_device_name(beside.assigned_device_name());
    frames_.resize(static_cast<std::size_t>(graph_.num_node_ids()), frames_[static_cast<std::size_t>(beside.id())]);
    return Status::OK();
  }

  // If a lookup waits for a change, its plan has to come after the change, too.
  Status PlanAfterwards() {
    for (bool again = true; again;) {
      again = false;
      for (Node* change : changes_) {
        for (const Evaluation& evaluation : evaluations_) {
          const After after(graph_, {change});
          if (!after.has(evaluation.lookup)) continue;
          for (Node* plan : evaluation.plans) {
            if (after.has(plan)) continue;
            if (IsAfter(graph_, plan, change)) return Neither(*change, evaluation);
            graph_.AddControlEdge(change, plan);
            again = true;
          }
        }
      }
    }
    return Status::OK();
  }

  static Status Neither(const Node& change, const Evaluation& evaluation) {
    return Refuse(Code::kInvalidArgument, "the evaluation '", evaluation.lookup->name(), "' waits for '", change.name(),
                  "', which changes tables and waits for the plan of the same evaluation: its rows can be read neither "
                  "before nor after the change. Nothing was run. Take one of the two dependencies away, or fetch the "
                  "evaluation in a run of its own");
  }

  // A lookup that does not come after a change comes before it.
  void OrderOneByOne() {
    for (const Evaluation& evaluation : evaluations_) {
      for (Node* change : changes_) {
        if (!IsAfter(graph_, change, evaluation.lookup)) graph_.AddControlEdge(evaluation.lookup, change);
      }
    }
  }

  // Every reader before every writer, where nothing orders the two.
  void Order(const Nodes& readers, const Nodes& writers) {
    for (Node* reader : readers) {
      const After later(graph_, {reader});
      for (Node* writer : writers) {
        // A control edge cannot lead into a loop; the update in it waits for the inputs of the loop.
        if (later.has(writer) || !InSameFrame(reader, writer) || IsAfter(graph_, writer, reader)) continue;
        graph_.AddControlEdge(reader, writer);
      }
    }
  }

  bool InSameFrame(const Node* a, const Node* b) const {
    return frames_[static_cast<std::size_t>(a->id())].frame == frames_[static_cast<std::size_t>(b->id())].frame;
  }

  Nodes WritesThrough(const Nodes& local_rows) const {
    Nodes found;
    for (Node* write : writes_) {
      for (const Node* origin : Origins(InputsCalled(*write, "handles"), "AscLocalRows")) {
        if (std::find(local_rows.begin(), local_rows.end(), origin) != local_rows.end()) found.push_back(write);
      }
    }
    return found;
  }

  Graph& graph_;
  Nodes changes_, lookups_, reads_, writes_;  // writes: by handle
  std::vector<Evaluation> evaluations_;
  std::vector<tensorflow::ControlFlowInfo> frames_;  // by node
};

}  // namespace

Status OrderStep(Graph* graph) { return StepOrder(graph).Apply(); }

}  // namespace ascpipe
