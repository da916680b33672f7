#include "graph/step_writer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "bridge/status.h"
#include "graph/columns.h"
#include "graph/new_ops.h"
#include "graph/rewiring.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

class Writer {
 public:
  Writer(const Layout& layout, const Reading& reading, Graph* graph)
      : layout_(layout), reading_(reading), step_(reading.step), graph_(*graph), now_(reading, graph) {}

  Status Write() {
    if (layout_.conflict.first >= 0) return Conflict();
    // Plans are written first, because the ops that are written later use the outputs of plans.
    for (const Group& plans : layout_.plans) TF_RETURN_IF_ERROR(WritePlans(plans));
    for (const Read& read : layout_.reads) TF_RETURN_IF_ERROR(WriteRead(read));
    for (const int bag : layout_.weight_gradients) TF_RETURN_IF_ERROR(WriteWeightGradient(bag));
    for (const SumGroup& sums : layout_.sums) TF_RETURN_IF_ERROR(WriteSum(sums));
    for (const Group& updates : layout_.updates) TF_RETURN_IF_ERROR(WriteUpdate(updates));
    TF_RETURN_IF_ERROR(CutOthersOut());
    TF_RETURN_IF_ERROR(WriteOrder());
    now_.RemoveUnread();
    return OkStatus();
  }

 private:
  BagPorts PortsOf(const Combination& how) const {
    return {now_.PortOf(how.splits), now_.PortOf(how.weights), how.combiner, how.max_norm};
  }

  // ---- reads

  Status WriteRead(const Read& read) {
    if (read.outputs[0].feature >= 0) return WriteRest(read);
    ReadOp op;
    Nodes waits;
    for (const Output& output : read.outputs) {
      op.BeginOutput();
      for (std::size_t i = 0; i < output.pieces.size(); ++i) {
        const Piece& piece = output.pieces[i];
        AddPiece(piece, &op, &waits);
        const bool is_joined = output.join >= 0 && (piece.feature >= 0 || piece.bag >= 0);
        if (is_joined) now_.AddWaits(reading_.waits_of_pieces[At(output.join)][i], &waits);
      }
      Nodes own;
      if (output.join >= 0) AddControlInputs(reading_.ops[At(step_.joins[At(output.join)].item)], &own);
      now_.AddWaits(own, &waits);
    }
    Node* node;
    TF_RETURN_IF_ERROR(op.AddTo(&graph_, waits, *reading_.ops[At(read.item)], &node));
    now_.Write(read.item, node);
    for (std::size_t i = 0; i < read.outputs.size(); ++i) {
      const Output& output = read.outputs[i];
      const Item item = output.join >= 0 ? step_.joins[At(output.join)].item : step_.bags[At(output.bag)].item;
      TF_RETURN_IF_ERROR(now_.Replace(reading_.ops[At(item)], {{node, static_cast<int>(i)}}, node));
    }
    return OkStatus();
  }

  // Replaces a lookup by a smaller lookup without the features that merged ops read.
  Status WriteRest(const Read& read) {
    const Lookup& lookup = LookupOf(read.outputs[0].feature);
    Node* const before = reading_.ops[At(lookup.item)];
    Outs restore;
    for (const Output& output : read.outputs) {
      restore.push_back(now_.PortOf(step_.features[At(output.feature)].restore).out());
    }
    NodeBuilder builder(graph_.NewName("ascpipe/lookup"), before->type_string(), graph_.op_registry());
    builder.Input(now_.PortOf(lookup.rows).out()).Input(now_.PortOf(lookup.slots).out()).Input(restore);
    builder.Input(now_.PortOf(lookup.default_row).out());
    if (!lookup.is_copy) builder.Attr("table", lookup.table);
    Nodes waits;
    AddControlInputs(before, &waits);
    Node* node;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, waits, *before, &node));
    now_.Write(read.item, node);
    std::vector<Port> outputs(At(before->num_outputs()));
    for (std::size_t i = 0; i < read.outputs.size(); ++i) {
      outputs[At(step_.features[At(read.outputs[i].feature)].output)] = {node, static_cast<int>(i)};
    }
    return now_.Replace(before, outputs, node);
  }

  const Lookup& LookupOf(int feature) const { return step_.lookups[At(step_.features[At(feature)].lookup)]; }

  void AddPiece(const Piece& piece, ReadOp* op, Nodes* waits) const {
    if (piece.feature < 0 && piece.bag < 0) return op->AddOther(now_.PortOf(piece.value));
    const int feature = piece.bag >= 0 ? step_.bags[At(piece.bag)].feature : piece.feature;
    const Lookup& lookup = LookupOf(feature);
    op->AddFeature(now_.PortOf(lookup.rows), now_.PortOf(lookup.slots), now_.PortOf(lookup.default_row), lookup.table,
                   now_.PortOf(step_.features[At(feature)].restore));
    op->AddBags(piece.bag >= 0 ? PortsOf(step_.bags[At(piece.bag)].how) : BagPorts());
    Nodes own;
    AddControlInputs(reading_.ops[At(lookup.item)], &own);
    now_.AddWaits(piece.bag >= 0 ? reading_.waits_of_bags[At(piece.bag)] : own, waits);
  }

  Status WriteWeightGradient(int number) {
    const Bag& bag = step_.bags[At(number)];
    const Lookup& lookup = LookupOf(bag.feature);
    Node* const before = reading_.ops[At(bag.item)];
    const auto one = [this](Value value) { return Outs{now_.PortOf(value).out()}; };
    NodeBuilder builder(graph_.NewName("ascpipe/weight_gradient"), before->type_string(), graph_.op_registry());
    builder.Input(now_.PortOf(lookup.rows).out()).Input(one(lookup.slots));
    builder.Input(one(step_.features[At(bag.feature)].restore)).Input(one(lookup.default_row));
    builder.Input(now_.PortOf(bag.how.splits).out())
        .Input(now_.PortOf(bag.how.weights).out())
        .Input(Source(before, 3).out());
    builder.Attr("combiner", bag.how.combiner).Attr("max_norm", bag.how.max_norm).Attr("table", lookup.table);
    Nodes waits;
    now_.AddWaits(reading_.waits_of_bags[At(number)], &waits);
    Node* node;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, waits, *before, &node));
    now_.Write(bag.item, node);
    return now_.Replace(before, {{node, 0}}, node);
  }

  // ---- sums

  Status WriteSum(const SumGroup& group) {
    SumOp op;
    Nodes waits;
    for (const int number : group.sums) {
      const Sum& sum = step_.sums[At(number)];
      const Node* const node = reading_.ops[At(sum.item)];
      op.AddTable(now_.PortOf(sum.rows), now_.PortOf(sum.slots), IntOf(node, "dim"), IsTrue(*node, "partial"));
      const bool in_place = layout_.in_place[At(number)];
      for (const SumFeature& feature : sum.features) {
        op.AddFeature(now_.PortOf(feature.restore), now_.PortOf(in_place ? feature.whole : feature.gradient),
                      in_place ? feature.begin : -1, PortsOf(feature.how));
      }
      now_.AddWaits(reading_.waits_of_sums[At(number)], &waits);
    }
    Node* together;
    TF_RETURN_IF_ERROR(op.AddTo(&graph_, waits, *reading_.ops[At(group.item)], &together));
    now_.Write(group.item, together);
    const int tables = static_cast<int>(group.sums.size());
    for (int i = 0; i < tables; ++i) {
      Node* const node = reading_.ops[At(step_.sums[At(group.sums[At(i)])].item)];
      TF_RETURN_IF_ERROR(now_.Replace(node, {{together, i}, {together, tables + i}}, together));
    }
    const Reached before(graph_, Reached::Way::kBefore, {together});
    for (const int number : group.sums) {
      for (Node* of_rows : reading_.gradients_of_rows[At(number)]) WaitForSum(of_rows, before, together);
    }
    return OkStatus();
  }

  // Moves the outgoing control edges of a replaced AscCombineRowsGrad op, for example to gated gradients, to the sum.
  void WaitForSum(Node* of_rows, const Reached& before, Node* sum) {
    const std::vector<const Edge*> edges(of_rows->out_edges().begin(), of_rows->out_edges().end());
    for (const Edge* edge : edges) {
      if (!edge->IsControlEdge() || !edge->dst()->IsOp() || before.has(edge->dst())) continue;
      graph_.AddControlEdge(sum, edge->dst());
      graph_.RemoveControlEdge(edge);
    }
  }

  // If sums read some columns of a tensor in place, changes the ops that cut the remaining columns out of the tensor.
  Status CutOthersOut() {
    std::set<Value> wholes;
    for (std::size_t sum = 0; sum < step_.sums.size(); ++sum) {
      if (layout_.in_place[sum]) wholes.insert(step_.sums[sum].features[0].whole);
    }
    const auto is_in_place = [&](std::size_t cut) { return wholes.count(step_.cuts[cut].whole) > 0; };
    for (std::size_t cut = 0; cut < step_.cuts.size(); ++cut) {
      if (is_in_place(cut)) WaitForWhole(&graph_, reading_.cuts[cut]);
    }
    const NodeSet gone = wholes.empty() ? NodeSet() : now_.Unread();
    for (std::size_t cut = 0; cut < step_.cuts.size(); ++cut) {
      if (!is_in_place(cut) || !step_.cuts[cut].has_known_place || gone.count(reading_.cuts[cut]) > 0) continue;
      TF_RETURN_IF_ERROR(CutOut(&graph_, *reading_.shapes, reading_.cuts[cut], gone));
      if (reading_.cuts[cut]->type_string() == "SplitV") {
        TF_RETURN_IF_ERROR(now_.Replace(reading_.cuts[cut], {}, Source(reading_.cuts[cut], 0).node));
      }
    }
    return OkStatus();
  }

  // ---- plans and updates

  template <typename Each>
  Nodes MembersOf(const Group& group, const std::vector<Each>& all) const {
    Nodes nodes;
    for (const int member : group.members) nodes.push_back(reading_.ops[At(all[At(member)].item)]);
    return nodes;
  }

  // Adds an op that replaces a group of ops. The new op gets the control inputs of the group's first op.
  Status PlaceFor(const Group& group, const Nodes& nodes, NodeBuilder* builder, Node** node) {
    Nodes waits;
    AddControlInputs(nodes[0], &waits);
    TF_RETURN_IF_ERROR(Place(&graph_, builder, waits, *nodes[0], node));
    now_.Write(group.item, *node);
    return OkStatus();
  }

  Status WritePlans(const Group& group) {
    const Nodes plans = MembersOf(group, step_.plans);
    Outs state;
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
    NodeBuilder builder(graph_.NewName("ascpipe/plans"), "AscPlans", graph_.op_registry());
    builder.Input(Source(plans[0], 0).out()).Input(state).Attr("tables", tables).Attr("features", features);
    builder.Attr("states", states).Attr("slot_initial", initial).Attr("send_counts", send_counts);
    builder.Attr("stream", IntOf(plans[0], "stream")).Attr("training", true);
    builder.Attr("n", static_cast<int>(plans.size())).Attr("k", std::accumulate(features.begin(), features.end(), 0));
    Node* together;
    TF_RETURN_IF_ERROR(PlaceFor(group, plans, &builder, &together));
    int restore = static_cast<int>(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      std::vector<Port> outputs = {{together, static_cast<int>(i)}};
      for (int feature = 0; feature < features[i]; ++feature) outputs.push_back({together, restore++});
      TF_RETURN_IF_ERROR(now_.Replace(plans[i], outputs, together));
    }
    return OkStatus();
  }

  Status WriteUpdate(const Group& group) {
    const Nodes updates = MembersOf(group, step_.updates);
    Outs states, numbers, gradients, indices;
    const int states_of_one = step_.updates[At(group.members[0])].states;
    for (const Node* update : updates) {
      const int gradient = update->num_inputs() - 2;
      for (int i = 0; i < gradient; ++i) {
        if (i < states_of_one) states.push_back(Source(update, i).out());
        if (i >= states_of_one && update == updates[0]) numbers.push_back(Source(update, i).out());
      }
      gradients.push_back(Source(update, gradient).out());
      indices.push_back(Source(update, gradient + 1).out());
    }
    NodeBuilder builder(graph_.NewName("ascpipe/update"), "AscUpdate", graph_.op_registry());
    builder.Input(states).Input(numbers).Input(gradients).Input(indices).Attr("rule", updates[0]->type_string());
    Node* together;
    TF_RETURN_IF_ERROR(PlaceFor(group, updates, &builder, &together));
    for (Node* update : updates) TF_RETURN_IF_ERROR(now_.Replace(update, {}, together));
    return OkStatus();
  }

  // ---- order

  Status Conflict() const {
    return Refuse(Code::kInvalidArgument, "the evaluation '", step_.ops[At(layout_.conflict.first)].name,
                  "' waits for '", step_.ops[At(layout_.conflict.second)].name,
                  "', which changes tables and waits for the plan of the same evaluation: its rows can be read neither "
                  "before nor after the change. Nothing was run. Take one of the two dependencies away, or fetch the "
                  "evaluation in a run of its own");
  }

  Status WriteOrder() {
    for (const auto& edge : layout_.order) graph_.AddControlEdge(now_.OpOf(edge.first), now_.OpOf(edge.second));
    if (!layout_.evaluations_first.empty()) {
      // An intermediate node avoids an edge from each evaluation to each change.
      NodeBuilder builder(graph_.NewName("ascpipe/evaluation_first"), "NoOp", graph_.op_registry());
      Nodes evaluations;
      for (const Item item : layout_.evaluations_first) evaluations.push_back(now_.OpOf(item));
      Node* between;
      TF_RETURN_IF_ERROR(Place(&graph_, &builder, evaluations, *now_.OpOf(step_.changes[0]), &between));
      for (const Item change : step_.changes) graph_.AddControlEdge(between, now_.OpOf(change));
    }
    return layout_.turn < 0 ? OkStatus() : WriteTurn();
  }

  Status WriteTurn() {
    const Plan& plan = step_.plans[At(layout_.turn)];
    Node* const trains = now_.OpOf(plan.item);
    NodeBuilder builder(graph_.NewName("ascpipe/turn"), "AscTurn", graph_.op_registry());
    builder.Input(now_.PortOf(plan.ticket).out()).Attr("table", IntOf(trains, "table")).Attr("stream", plan.stream);
    Nodes waits;
    for (const Item item : layout_.before_turn) waits.push_back(now_.OpOf(item));
    Node* turn;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, waits, *trains, &turn));
    for (const Item item : layout_.after_turn) graph_.AddControlEdge(turn, now_.OpOf(item));
    return OkStatus();
  }

  const Layout& layout_;
  const Reading& reading_;
  const Step& step_;
  Graph& graph_;
  Rewiring now_;
};

}  // namespace

Status WriteStep(const Layout& layout, const Reading& reading, Graph* graph) {
  return Writer(layout, reading, graph).Write();
}

}  // namespace step
}  // namespace ascpipe
