// The graph of a step of several ranks: what the program wrote for one rank, with exchanges put in.
//
// A program's graph has, for each table, a plan (AscNextPlan), lookups of its rows, sums of their gradients and updates.
// Of several ranks the plan is of what all ranks ask of this one (the owned ring), and the lookups read rows that came
// from their owners:
//
//   IteratorGetNext -> AscGate -> AscNextPlan -> AscLookup -> AscForward -> AscRestoreRows -> the program's model
//   the program's model -> AscLookupGrad -> AscBackward -> AscLookupGrad -> the program's optimizer
//
// One AscForward and one AscBackward serve all tables of the step.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bridge/gathered_rows.h"
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "bridge/step_graph.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// The plan of one table, and what stands for it.
struct TablePlan {
  Node* plan = nullptr;   // the program's
  int table = 0;
  int features = 0;
  Port variable;
  Node* owned = nullptr;  // AscNextPlan of what all ranks ask for
  Node* keys = nullptr;   // AscLocalKeys
  Node* rows = nullptr;   // AscLookup of what they ask for
  Nodes lookups, sums;    // the program's
};

// The plans of one stream.
struct Step {
  int stream = 0;
  bool training = false;
  Port owned;    // ticket
  Port ticket;
  std::vector<TablePlan> tables;
  Node* forward = nullptr;
  Node* backward = nullptr;
};

class RankExchange {
 public:
  RankExchange(Graph* graph, const Pipeline& pipeline) : graph_(*graph), pipeline_(pipeline) {}

  Status Apply() {
    TF_RETURN_IF_ERROR(FindPlans());
    if (steps_.empty()) return Status::OK();
    TF_RETURN_IF_ERROR(FindUses());
    for (auto& entry : steps_) {
      Step* const step = &entry.second;
      TF_RETURN_IF_ERROR(PutGate(step));
      TF_RETURN_IF_ERROR(PutForward(step));
      for (std::size_t i = 0; i < step->tables.size(); ++i) {
        TF_RETURN_IF_ERROR(ReadLocal(*step, static_cast<int>(i)));
      }
      TF_RETURN_IF_ERROR(PutBackward(step));
    }
    for (Node* node : replaced_) graph_.RemoveNode(node);
    tensorflow::FixupSourceAndSinkEdges(&graph_);
    return Status::OK();
  }

 private:
  static Status NotBuilt(const Node& node, const char* what) {
    return Refuse(Code::kFailedPrecondition, "'", node.name(), "' (", node.type_string(), "): ", what,
                  " cannot be trained by several ranks yet. Nothing was run; train it in one process");
  }

  Status FindPlans() {
    Nodes plans;
    for (Node* node : graph_.op_nodes()) {
      if (node->type_string() == "AscNextPlan" && pipeline_.ranked(IntOf(node, "stream")) != nullptr) {
        plans.push_back(node);
      }
    }
    ByName(&plans);
    for (Node* node : plans) {
      Step& step = steps_[IntOf(node, "stream")];
      step.stream = IntOf(node, "stream");
      step.training = IsTrue(*node, "training");
      const Port ticket = Source(node, 0);
      if (step.ticket.node != nullptr && !(step.ticket == ticket)) {
        return NotBuilt(*node, "a stream whose plans have several tickets");
      }
      step.ticket = ticket;
      TablePlan plan;
      plan.plan = node;
      plan.table = IntOf(node, "table");
      plan.features = IntOf(node, "k");
      plan.variable = Source(node, 1);
      std::vector<int> widths;
      if (tensorflow::GetNodeAttr(node->attrs(), "slot_widths", &widths).ok() && !widths.empty()) {
        return NotBuilt(*node, "a table whose rows are used at home (use_dynamic_expansion)");
      }
      step.tables.push_back(plan);
    }
    for (auto& entry : steps_) {  // the same order on all ranks, whatever their names are
      std::sort(entry.second.tables.begin(), entry.second.tables.end(),
                [](const TablePlan& a, const TablePlan& b) { return a.table < b.table; });
    }
    return Status::OK();
  }

  // The plan that slots come from; null: from none of several ranks.
  TablePlan* PlanOf(const Port& slots) {
    std::set<const Node*> seen;
    Nodes left = {slots.node};
    while (!left.empty()) {
      Node* const node = left.back();
      left.pop_back();
      if (!seen.insert(node).second) continue;
      for (auto& entry : steps_) {
        for (TablePlan& table : entry.second.tables) {
          if (table.plan == node) return &table;
        }
      }
      if (node->type_string() == "AscNextPlan") continue;
      for (const Edge* edge : node->in_edges()) {
        if (!edge->IsControlEdge()) left.push_back(edge->src());
      }
    }
    return nullptr;
  }

  Status FindUses() {
    Nodes nodes(graph_.op_nodes().begin(), graph_.op_nodes().end());
    ByName(&nodes);
    for (Node* node : nodes) {
      if (node->type_string() == "AscLookup") {
        TablePlan* const table = PlanOf(Source(node, 1));
        if (table == nullptr) continue;
        if (!(Source(node, 0) == table->variable)) return NotBuilt(*node, "a lookup within a conditional");
        table->lookups.push_back(node);
      } else if (node->type_string() == "AscLookupGrad") {
        TablePlan* const table = PlanOf(Source(node, 0));
        if (table == nullptr) continue;
        table->sums.push_back(node);
        TF_RETURN_IF_ERROR(RefuseGathered(*node));
      } else if (Is(node, {"AscLookupConcat", "AscLookupConcatGrad"}) && PlanOf(Source(node, IntOf(node, "n")))) {
        return NotBuilt(*node, "lookup_concat");
      } else if (Is(node, {"AscLocalRows"}) && PlanOf(Source(node, 0)) != nullptr) {
        return NotBuilt(*node, "a table whose rows are used at home (use_dynamic_expansion)");
      }
    }
    return Status::OK();
  }

  Status Put(NodeBuilder* builder, const Node& beside, Node** node) { return Place(&graph_, builder, {}, beside, node); }

  // A stateful op for one of the program's: a session caches its kernel by name, for all sets of fetches.
  NodeBuilder Named(const Node& stands_for, const char* type) const {
    return NodeBuilder(stands_for.name() + "/ascpipe_ranks", type, graph_.op_registry());
  }

  NodeBuilder New(const char* name, const char* type) const {
    return NodeBuilder(graph_.NewName(std::string("ascpipe/") + name), type, graph_.op_registry());
  }

  // Nothing of the step sees its batch before all ranks have it.
  Status PutGate(Step* step) {
    Port source = step->ticket;
    while (Is(source.node, {"Identity"})) source = Source(source.node, 0);
    if (!Is(source.node, {"IteratorGetNext", "IteratorGetNextSync"})) {
      return NotBuilt(*source.node, "a batch that does not come from get_next() of an iterator");
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
    NodeBuilder asking = Named(*next, "IteratorGetNextAsOptional");
    asking.Input(Source(next, 0).out()).Attr("output_types", types).Attr("output_shapes", shapes).ControlInputs(before);
    TF_RETURN_IF_ERROR(Put(&asking, *next, &optional));
    NodeBuilder having = New("has_batch", "OptionalHasValue");
    TF_RETURN_IF_ERROR(Put(&having.Input(optional, 0), *next, &has));
    NodeBuilder lacking = New("nothing", "AscNothing");
    TF_RETURN_IF_ERROR(Put(&lacking.Attr("T", types), *next, &nothing));
    std::vector<NodeBuilder::NodeOut> parts;
    for (std::size_t i = 0; i < types.size(); ++i) parts.emplace_back(nothing, static_cast<int>(i));
    NodeBuilder filling = New("no_batch", "OptionalFromValue");
    TF_RETURN_IF_ERROR(Put(&filling.Input(parts), *next, &filler));
    NodeBuilder choosing = New("batch_or_none", "AscChoose");
    TF_RETURN_IF_ERROR(Put(&choosing.Input(has, 0).Input(optional, 0).Input(filler, 0), *next, &chosen));
    NodeBuilder getting = New("batch", "OptionalGetValue");
    getting.Input(chosen, 0).Attr("output_types", types).Attr("output_shapes", unknown);
    TF_RETURN_IF_ERROR(Put(&getting, *next, &values));
    parts.clear();
    for (std::size_t i = 0; i < types.size(); ++i) parts.emplace_back(values, static_cast<int>(i));
    NodeBuilder gating = New("gate", "AscGate");
    gating.Input(has, 0).Input(parts).Attr("stream", step->stream).Attr("ticket", source.index);
    gating.Attr("training", step->training).Attr("tables", UsedTables(*step));
    TF_RETURN_IF_ERROR(Put(&gating, *next, &gate));
    std::vector<int> outputs;
    for (std::size_t i = 0; i < types.size(); ++i) outputs.push_back(static_cast<int>(i));
    TF_RETURN_IF_ERROR(Repoint(&graph_, next, gate, outputs));
    replaced_.push_back(next);
    step->owned = {gate, static_cast<int>(types.size())};
    step->ticket = {gate, source.index};
    return Status::OK();
  }

  // A number for the tables of a step: equal on ranks that use the same ones.
  static tensorflow::int64 UsedTables(const Step& step) {
    std::uint64_t hash = 1469598103934665603u;  // FNV-1a
    for (const TablePlan& table : step.tables) {
      const std::uint64_t part = static_cast<std::uint64_t>(table.table) * 256 + table.sums.size();
      hash = (hash ^ part) * 1099511628211u;
    }
    return static_cast<tensorflow::int64>(hash >> 1);
  }

  Status PutForward(Step* step) {
    std::vector<NodeBuilder::NodeOut> slots, restore, rows;
    std::vector<int> tables;
    bool has_backward = false;
    Node* const beside = step->tables[0].plan;
    tensorflow::Tensor zero(tensorflow::DT_FLOAT, {});
    zero.scalar<float>()() = 0;
    Node* no_row;
    NodeBuilder constant = New("no_row", "Const");
    TF_RETURN_IF_ERROR(Put(&constant.Attr("dtype", zero.dtype()).Attr("value", zero), *beside, &no_row));
    for (TablePlan& table : step->tables) {
      Nodes before;
      AddControlInputs(table.plan, &before);
      NodeBuilder planning = Named(*table.plan, "AscNextPlan");
      std::vector<NodeBuilder::NodeOut> state;
      for (int i = 0; i < IntOf(table.plan, "n_state"); ++i) state.push_back(Source(table.plan, 1 + i).out());
      std::vector<float> initial;
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(table.plan->attrs(), "slot_initial", &initial));
      planning.Input(step->owned.out()).Input(state).Attr("table", table.table).Attr("stream", step->stream);
      planning.Attr("k", 1).Attr("training", step->training).Attr("slot_initial", initial).ControlInputs(before);
      TF_RETURN_IF_ERROR(Put(&planning, *table.plan, &table.owned));
      NodeBuilder reading = New("local_keys", "AscLocalKeys");
      reading.Input(step->ticket.out()).Input(step->owned.out()).Attr("stream", step->stream);
      TF_RETURN_IF_ERROR(Put(&reading.Attr("table", table.table).Attr("k", table.features), *table.plan, &table.keys));
      NodeBuilder looking = New("asked_rows", "AscLookup");
      looking.Input(table.variable.out()).Input(table.owned, 0);
      looking.Input(std::vector<NodeBuilder::NodeOut>{{table.owned, 1}}).Input(no_row, 0);
      TF_RETURN_IF_ERROR(Put(&looking.Attr("table", step->training ? -1 : table.table), *table.plan, &table.rows));
      slots.emplace_back(table.owned, 0);
      restore.emplace_back(table.owned, 1);
      rows.emplace_back(table.rows, 0);
      tables.push_back(table.table);
      has_backward = has_backward || !table.sums.empty();
    }
    NodeBuilder forward = New("forward", "AscForward");
    forward.Input(step->owned.out()).Input(slots).Input(restore).Input(rows).Attr("tables", tables);
    forward.Attr("stream", step->stream).Attr("training", step->training).Attr("has_backward", has_backward);
    return Put(&forward.Attr("used", UsedTables(*step)), *beside, &step->forward);
  }

  // The program's lookups of a table read the rows that came.
  Status ReadLocal(const Step& step, int index) {
    const TablePlan& table = step.tables[static_cast<std::size_t>(index)];
    const int count = static_cast<int>(step.tables.size());
    for (Node* lookup : table.lookups) {
      const int k = IntOf(lookup, "k");
      Nodes before;
      AddControlInputs(lookup, &before);
      std::vector<NodeBuilder::NodeOut> restore;
      for (int i = 0; i < k; ++i) restore.push_back(Source(lookup, 2 + i).out());
      NodeBuilder builder = New("restore_rows", "AscRestoreRows");
      builder.Input(step.forward, count + index).Input(Source(lookup, 1).out()).Input(restore);
      builder.Input(Source(lookup, 2 + k).out()).ControlInputs(before);
      Node* local;
      TF_RETURN_IF_ERROR(Put(&builder, *lookup, &local));
      std::vector<int> outputs;
      for (int i = 0; i < k; ++i) outputs.push_back(i);
      TF_RETURN_IF_ERROR(Repoint(&graph_, lookup, local, outputs));
      replaced_.push_back(lookup);
    }
    const std::vector<const Edge*> edges(table.plan->out_edges().begin(), table.plan->out_edges().end());
    for (const Edge* edge : edges) {
      if (edge->IsControlEdge()) {
        if (edge->dst()->IsOp()) graph_.AddControlEdge(step.forward, edge->dst());
        graph_.RemoveControlEdge(edge);
      } else if (edge->src_output() == 0) {
        TF_RETURN_IF_ERROR(graph_.UpdateEdge(step.forward, index, edge->dst(), edge->dst_input()));
      } else {
        TF_RETURN_IF_ERROR(graph_.UpdateEdge(table.keys, edge->src_output() - 1, edge->dst(), edge->dst_input()));
      }
    }
    replaced_.push_back(table.plan);
    return Status::OK();
  }

  // The sums of a table's gradients go to the owners of its keys, and what came from all ranks is summed in rank order.
  Status PutBackward(Step* step) {
    std::vector<std::pair<Node*, const TablePlan*>> sums;
    std::vector<NodeBuilder::NodeOut> restore, values, indices;
    std::vector<int> tables;
    for (const TablePlan& table : step->tables) {
      for (Node* node : table.sums) {
        sums.push_back({node, &table});
        restore.emplace_back(table.owned, 1);
        values.emplace_back(node, 0);
        indices.emplace_back(node, 1);
        tables.push_back(table.table);
      }
    }
    if (sums.empty()) return Status::OK();
    NodeBuilder builder = New("backward", "AscBackward");
    builder.Input(step->owned.out()).Input(restore).Input(values).Input(indices).Attr("tables", tables);
    builder.Attr("stream", step->stream).Attr("used", UsedTables(*step));
    TF_RETURN_IF_ERROR(Put(&builder, *sums[0].first, &step->backward));
    const int count = static_cast<int>(sums.size());
    for (int i = 0; i < count; ++i) {
      Node* const node = sums[static_cast<std::size_t>(i)].first;
      const TablePlan& table = *sums[static_cast<std::size_t>(i)].second;
      NodeBuilder summing = New("sum_of_ranks", "AscLookupGrad");
      summing.Input(table.owned, 0).Input(std::vector<NodeBuilder::NodeOut>{{step->backward, i}});
      summing.Input(std::vector<NodeBuilder::NodeOut>{{step->backward, count + i}});
      summing.Attr("dim", IntOf(node, "dim")).Attr("partial", IsTrue(*node, "partial"));
      Node* sum;
      TF_RETURN_IF_ERROR(Put(&summing, *node, &sum));
      Node* value = sum;
      if (pipeline_.averages(table.table)) TF_RETURN_IF_ERROR(PutAverage(sum, &value));
      const std::vector<const Edge*> edges(node->out_edges().begin(), node->out_edges().end());
      for (const Edge* edge : edges) {
        if (edge->dst() == step->backward) continue;
        if (edge->IsControlEdge()) {
          if (edge->dst()->IsOp()) graph_.AddControlEdge(sum, edge->dst());
          graph_.RemoveControlEdge(edge);
        } else {
          Node* const from = edge->src_output() == 0 ? value : sum;
          TF_RETURN_IF_ERROR(
              graph_.UpdateEdge(from, edge->src_output() == 0 && value != sum ? 0 : edge->src_output(), edge->dst(),
                                edge->dst_input()));
        }
      }
    }
    return PutApplied(*step);
  }

  Status PutAverage(Node* sum, Node** average) {
    tensorflow::Tensor ranks(tensorflow::DT_FLOAT, {});
    ranks.scalar<float>()() = static_cast<float>(pipeline_.ranks()->size());
    Node* number;
    NodeBuilder constant = New("ranks", "Const");
    TF_RETURN_IF_ERROR(Put(&constant.Attr("dtype", ranks.dtype()).Attr("value", ranks), *sum, &number));
    NodeBuilder dividing = New("average_of_ranks", "RealDiv");
    return Put(&dividing.Input(sum, 0).Input(number, 0), *sum, average);
  }

  // A step that fails before all that reads its gradients has run leaves tables half-way: other ranks are told.
  Status PutApplied(const Step& step) {
    const After after(graph_, {step.backward});
    Nodes last;
    for (Node* node : graph_.op_nodes()) {
      const auto& edges = node->out_edges();
      const bool read = std::any_of(edges.begin(), edges.end(), [](const Edge* edge) { return edge->dst()->IsOp(); });
      if (after.has(node) && !read) last.push_back(node);
    }
    NodeBuilder builder = New("applied", "AscApplied");
    Node* applied;
    return Place(&graph_, &builder, last, *step.backward, &applied);
  }

  Graph& graph_;
  const Pipeline& pipeline_;
  std::map<int, Step> steps_;  // by stream
  Nodes replaced_;
};

// A session runs this pass once per set of fetches, on the graph pruned to them, before those that fuse ops.
class RankExchangePass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return Status::OK();
    const std::shared_ptr<Pipeline> pipeline = OwnedPipeline();
    if (pipeline == nullptr || pipeline->ranks() == nullptr) return Status::OK();
    return RankExchange(options.graph->get(), *pipeline).Apply();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, -3, RankExchangePass);

}  // namespace

}  // namespace ascpipe
