// Inserts the exchanges between ranks into the graph of a step. The program built this graph for one rank.
//
// For each table, the program's graph has a plan (AscNextPlan), lookups, sums of gradients, and updates. With several
// ranks, the plan covers the keys that all ranks request from this rank (the owned ring). Lookups read rows that the
// owners of the keys have sent:
//
//   IteratorGetNext -> AscGate -> AscNextPlan -> AscLookup -> AscForward -> AscRestoreRows -> the program's model
//   the program's model -> AscLookupGrad -> AscBackward -> AscLookupGrad -> the program's optimizer
//
// One AscForward and one AscBackward serve all tables of the step.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bridge/compatibility.h"
#include "bridge/pipeline.h"
#include "graph/rank_nodes.h"
#include "graph/step_facts.h"
#include "graph/step_graph.h"
#include "graph/step_pass.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// The plan of one table, and the nodes that replace the plan.
struct TablePlan {
  Node* plan = nullptr;  // plan of the program
  int table = 0;
  int features = 0;
  Port variable;
  Node* owned = nullptr;  // AscNextPlan of the keys that all ranks request
  Node* keys = nullptr;   // AscLocalKeys
  Node* rows = nullptr;   // the requested rows
  Node* named = nullptr;  // AscNameRows of an expansion table that is trained
  Nodes sums;             // AscLookupGrad ops of the program
  Nodes locals;           // AscLocalRows ops of the program
  Port local;             // rows received by AscForward
};

// An AscLookup op of the program, and its table.
struct Lookup {
  Node* node;
  const TablePlan* table;
};

// All plans of one stream.
struct Step {
  int stream = 0;
  bool training = false;
  Port owned;  // ticket of the owned ring
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
    if (steps_.empty()) return OkStatus();
    facts_ = FactsOf(graph_, pipeline_);
    TF_RETURN_IF_ERROR(FindUses());
    for (auto& entry : steps_) {
      Step* const step = &entry.second;
      const GatedStep gated = {step->stream, step->training, UsedTables(*step)};
      TF_RETURN_IF_ERROR(PutGate(&graph_, gated, &step->ticket, &step->owned));
      TF_RETURN_IF_ERROR(PutForward(step));
      for (std::size_t i = 0; i < step->tables.size(); ++i) {
        TF_RETURN_IF_ERROR(ReadLocal(step, static_cast<int>(i)));
      }
      TF_RETURN_IF_ERROR(PutBackward(step));
    }
    for (const Lookup& lookup : lookups_) {
      TF_RETURN_IF_ERROR(ReadWhatCame(&graph_, lookup.node, lookup.table->local));
      replaced_.push_back(lookup.node);
    }
    for (Node* node : replaced_) graph_.RemoveNode(node);
    tensorflow::FixupSourceAndSinkEdges(&graph_);
    return OkStatus();
  }

 private:
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
        return NotBuiltForRanks(*node, "a stream whose plans have several tickets");
      }
      step.ticket = ticket;
      TablePlan plan;
      plan.plan = node;
      plan.table = IntOf(node, "table");
      plan.features = IntOf(node, "k");
      plan.variable = Source(node, 1);
      step.tables.push_back(plan);
    }
    for (auto& entry : steps_) {  // this order is the same on all ranks, and does not depend on names
      std::sort(entry.second.tables.begin(), entry.second.tables.end(),
                [](const TablePlan& a, const TablePlan& b) { return a.table < b.table; });
    }
    return OkStatus();
  }

  // Returns the plan from which `from` gets slots or handles. Returns null if the plan does not belong to a stream of
  // several ranks. Sets *passed if an op of type `through` is between the plan and `from`.
  TablePlan* PlanOf(const Port& from, const char* through = nullptr, bool* passed = nullptr) {
    TablePlan* found = nullptr;
    VisitSources({from.node}, [&](const Node* node) {
      if (through != nullptr && node->type_string() == through) *passed = true;
      for (auto& entry : steps_) {
        for (TablePlan& table : entry.second.tables) {
          if (table.plan == node) found = &table;
        }
      }
      return node->type_string() != "AscNextPlan";
    });
    return found;
  }

  Status FindUses() {
    Nodes nodes(graph_.op_nodes().begin(), graph_.op_nodes().end());
    ByName(&nodes);
    for (Node* node : nodes) {
      if (node->type_string() == "AscLookup") {
        const TablePlan* const table = PlanOf(Source(node, 1));
        if (table == nullptr) continue;
        if (!(Source(node, 0) == table->variable)) return NotBuiltForRanks(*node, "a lookup within a conditional");
        lookups_.push_back({node, table});
      } else if (node->type_string() == "AscLookupGrad") {
        TablePlan* const table = PlanOf(Source(node, 0));
        if (table == nullptr) continue;
        table->sums.push_back(node);
        TF_RETURN_IF_ERROR(RefuseGathered(*node));
      } else if (node->type_string() == "AscLocalRows") {
        TablePlan* const table = PlanOf(Source(node, 0));
        if (table != nullptr) table->locals.push_back(node);
      } else {
        TF_RETURN_IF_ERROR(RequireSummed(*node));
      }
    }
    return OkStatus();
  }

  // Returns an error if an op uses handles that do not come from an AscLookupGrad op. Handles refer to rows of this
  // rank. Only rows that an AscLookupGrad op selects have sums of gradients.
  Status RequireSummed(const Node& node) {
    if (!Is(&node, {"AscReadRows", "AscWriteRows", "AscApplyGradientDescentByAddress", "AscApplyAdagradByAddress",
                    "AscApplyLazyAdamByAddress"})) {
      return OkStatus();
    }
    bool summed = false;
    if (PlanOf(Source(&node, 0), "AscLookupGrad", &summed) == nullptr || summed) return OkStatus();
    return NotBuiltForRanks(node, "handles of rows other than those of a lookup's gradient (IndexedSlices)");
  }

  Status Put(NodeBuilder* builder, const Node& beside, Node** node) {
    return Place(&graph_, builder, {}, beside, node);
  }

  // Returns a hash of the tables of a step. The hash is equal on ranks that use the same tables.
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
    const std::vector<tensorflow::PartialTensorShape> asked = {tensorflow::PartialTensorShape({-1})};
    bool has_backward = false;
    Node* const beside = step->tables[0].plan;
    tensorflow::Tensor zero(tensorflow::DT_FLOAT, {});
    zero.scalar<float>()() = 0;
    Node* no_row;
    NodeBuilder constant = NewNode(&graph_, "no_row", "Const");
    TF_RETURN_IF_ERROR(Put(&constant.Attr("dtype", zero.dtype()).Attr("value", zero), *beside, &no_row));
    for (TablePlan& table : step->tables) {
      Nodes before;
      AddControlInputs(table.plan, &before);
      NodeBuilder planning = NodeFor(graph_, *table.plan, "AscNextPlan");
      std::vector<NodeBuilder::NodeOut> state;
      for (int i = 0; i < IntOf(table.plan, "n_state"); ++i) state.push_back(Source(table.plan, 1 + i).out());
      std::vector<float> initial;
      std::vector<int> widths;
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(table.plan->attrs(), "slot_initial", &initial));
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(table.plan->attrs(), "slot_widths", &widths));
      planning.Input(step->owned.out()).Input(state).Attr("table", table.table).Attr("stream", step->stream);
      planning.Attr("k", 1).Attr("training", step->training).Attr("slot_initial", initial);
      planning.Attr("slot_widths", widths).Attr("shapes", asked).ControlInputs(before);
      TF_RETURN_IF_ERROR(Put(&planning, *table.plan, &table.owned));
      NodeBuilder reading = NewNode(&graph_, "local_keys", "AscLocalKeys");
      reading.Input(step->ticket.out()).Input(step->owned.out()).Attr("stream", step->stream);
      std::vector<tensorflow::PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(table.plan->attrs(), "shapes", &shapes));
      reading.Attr("table", table.table).Attr("k", table.features).Attr("shapes", shapes);
      reading.Attr("send_count", IntOf(table.plan, "send_count"));
      TF_RETURN_IF_ERROR(Put(&reading, *table.plan, &table.keys));
      TF_RETURN_IF_ERROR(PutAskedRows(*step, no_row, &table));
      slots.emplace_back(table.owned, 0);
      restore.emplace_back(table.owned, 1);
      rows.emplace_back(table.rows, 0);
      tables.push_back(table.table);
      has_backward = has_backward || !table.sums.empty();
    }
    NodeBuilder forward = NewNode(&graph_, "forward", "AscForward");
    forward.Input(step->owned.out()).Input(slots).Input(restore).Input(rows).Attr("tables", tables);
    forward.Attr("stream", step->stream).Attr("training", step->training).Attr("has_backward", has_backward);
    return Put(&forward.Attr("used", UsedTables(*step)).Attr("facts", facts_), *beside, &step->forward);
  }

  // Adds ops that read the rows that all ranks request from this rank. The rows are in the order of the requesting
  // ranks.
  Status PutAskedRows(const Step& step, Node* no_row, TablePlan* table) {
    Port rows = table->variable, slots = {table->owned, 0};
    const bool at_home = !table->locals.empty();
    if (at_home) {
      Node* local;
      NodeBuilder copying = NodeFor(graph_, *table->locals[0], "AscLocalRows");
      copying.Input(table->owned, 0).Input(step.owned.out()).Attr("table", table->table);
      TF_RETURN_IF_ERROR(Put(&copying.Attr("dim", IntOf(table->locals[0], "dim")), *table->plan, &local));
      rows = {local, 2};
      slots = {local, 1};
    }
    NodeBuilder looking = NewNode(&graph_, "asked_rows", at_home ? "AscRestoreRows" : "AscLookup");
    looking.Input(rows.out()).Input(slots.out()).Input(std::vector<NodeBuilder::NodeOut>{{table->owned, 1}});
    looking.Input(no_row, 0);
    if (!at_home) looking.Attr("table", step.training ? -1 : table->table);
    return Put(&looking, *table->plan, &table->rows);
  }

  // Replaces the plan of a table. Ops that read slots of the plan read positions in the received rows instead.
  Status ReadLocal(Step* plans, int index) {
    const Step& step = *plans;
    TablePlan& table = plans->tables[static_cast<std::size_t>(index)];
    const Port places = {step.forward, index};
    table.local = {step.forward, static_cast<int>(step.tables.size()) + index};
    if (!table.locals.empty()) {
      // AscNameRows must run after the exchange. Changes of the table during the exchange would invalidate handles that
      // were created earlier.
      NodeBuilder naming = NewNode(&graph_, "owned_rows", "AscNameRows");
      naming.Input(table.owned, 0).Input(step.owned.out()).Attr("table", table.table).ControlInput(step.forward);
      TF_RETURN_IF_ERROR(Put(&naming, *table.plan, &table.named));
    }
    for (Node* local : table.locals) {
      TF_RETURN_IF_ERROR(Repoint(&graph_, local, {{table.named, 0}, places, table.local}, step.forward));
      replaced_.push_back(local);
    }
    std::vector<Port> outputs = {places};
    for (int i = 0; i < table.features; ++i) outputs.push_back({table.keys, i});
    TF_RETURN_IF_ERROR(Repoint(&graph_, table.plan, outputs, step.forward));
    replaced_.push_back(table.plan);
    return OkStatus();
  }

  // Adds the exchange that sends the sums of each table's gradients to the owners of the keys. Adds ops that sum the
  // received gradients in rank order.
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
    if (sums.empty()) return OkStatus();
    NodeBuilder builder = NewNode(&graph_, "backward", "AscBackward");
    builder.Input(step->owned.out()).Input(restore).Input(values).Input(indices).Attr("tables", tables);
    builder.Attr("stream", step->stream).Attr("used", UsedTables(*step));
    TF_RETURN_IF_ERROR(Put(&builder, *sums[0].first, &step->backward));
    const int count = static_cast<int>(sums.size());
    for (int i = 0; i < count; ++i) {
      Node* const node = sums[static_cast<std::size_t>(i)].first;
      const TablePlan& table = *sums[static_cast<std::size_t>(i)].second;
      NodeBuilder summing = NewNode(&graph_, "sum_of_ranks", "AscLookupGrad");
      const Port slots = table.named == nullptr ? Port{table.owned, 0} : Port{table.named, 1};
      summing.Input(slots.out()).Input(std::vector<NodeBuilder::NodeOut>{{step->backward, i}});
      summing.Input(std::vector<NodeBuilder::NodeOut>{{step->backward, count + i}});
      summing.Attr("dim", IntOf(node, "dim")).Attr("partial", IsTrue(*node, "partial"));
      Node* sum;
      TF_RETURN_IF_ERROR(Put(&summing, *node, &sum));
      Node* value = sum;
      if (pipeline_.averages(table.table)) {
        TF_RETURN_IF_ERROR(PutAverage(&graph_, pipeline_.ranks()->size(), sum, &value));
      }
      TF_RETURN_IF_ERROR(Repoint(&graph_, node, {{value, 0}, {sum, 1}}, sum, step->backward));
    }
    return PutApplied(&graph_, step->backward);
  }

  Graph& graph_;
  const Pipeline& pipeline_;
  std::map<int, Step> steps_;  // by stream
  std::string facts_;          // in the format of peers/likeness.h
  std::vector<Lookup> lookups_;
  Nodes replaced_;
};

}  // namespace

Status ExchangeAmongRanks(tensorflow::Graph* graph) {
  const std::shared_ptr<Pipeline> pipeline = OwnedPipeline();
  if (pipeline == nullptr || pipeline->ranks() == nullptr) return OkStatus();
  return RankExchange(graph, *pipeline).Apply();
}

}  // namespace ascpipe
