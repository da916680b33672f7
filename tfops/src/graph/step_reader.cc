#include "graph/step_reader.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "bridge/compatibility.h"
#include "graph/graph_order.h"
#include "graph/numbered.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {
namespace step {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::Status;

namespace {

class Reader {
 public:
  Reader(Graph* graph, Reading* reading) : numbered_(graph, reading), reading_(*reading), step_(reading->step) {}

  Status Read() {
    if (!HasTables()) return OkStatus();
    TF_RETURN_IF_ERROR(numbered_.ReadLoops());
    ReadLookups();
    TF_RETURN_IF_ERROR(ReadBags());
    TF_RETURN_IF_ERROR(ReadSums());
    ReadJoins(&numbered_);
    ReadUses(&numbered_);
    ReadChanges(&numbered_);
    ReadOps();
    return OkStatus();
  }

 private:
  bool HasTables() {
    const auto has = [this](const char* type) { return !numbered_.All(type).empty(); };
    return has("AscLookup") || has("AscRestoreRows") || has("AscNextPlan") || has("AscReadRows");
  }

  // ---- lookups

  void ReadLookups() {
    Nodes nodes = numbered_.All("AscLookup");
    nodes.insert(nodes.end(), numbered_.All("AscRestoreRows").begin(), numbered_.All("AscRestoreRows").end());
    for (Node* node : nodes) {
      const int k = IntOf(node, "k");
      Lookup lookup;
      lookup.item = numbered_.ItemOf(node);
      lookup.is_copy = node->type_string() == "AscRestoreRows";
      lookup.rows = numbered_.ValueOf(Source(node, 0));
      lookup.slots = numbered_.ValueOf(Source(node, 1));
      lookup.default_row = numbered_.ValueOf(Source(node, 2 + k));
      if (!lookup.is_copy) {
        lookup.table = IntOf(node, "table");
        lookup.updates = numbered_.ItemsOf(Updates({Source(node, 0).node}));
        lookup.evaluations = EvaluationsOf(Source(node, 1));
      }
      for (int i = 0; i < k; ++i) {
        numbered_.features[{node, i}] = static_cast<int>(step_.features.size());
        step_.features.push_back(
            {static_cast<int>(step_.lookups.size()), i, numbered_.ValueOf(Source(node, 2 + i)), {}});
      }
      step_.lookups.push_back(lookup);
    }
  }

  Items EvaluationsOf(const Port& slots) {
    Items plans;
    for (Node* plan : Origins({slots.node}, "AscNextPlan")) {
      if (!IsTrue(*plan, "training")) plans.push_back(numbered_.ItemOf(plan));
    }
    return plans;
  }

  int FeatureOf(const Port& port) const {
    const auto found = numbered_.features.find({port.node, port.index});
    return found == numbered_.features.end() ? -1 : found->second;
  }

  // ---- bags

  Status ReadHow(const Node& node, int splits, int weights, Combination* how) {
    how->splits = numbered_.ValueOf(Source(&node, splits));
    if (weights >= 0) how->weights = numbered_.ValueOf(Source(&node, weights));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node.attrs(), "combiner", &how->combiner));
    return tensorflow::GetNodeAttr(node.attrs(), "max_norm", &how->max_norm);
  }

  // Skips ops that return their input unchanged, beginning with the op that produces `at`. Returns the output of the op
  // that computes the rows. Adds the control inputs of the skipped ops to *waits.
  static Port Trace(Port at, Nodes* waits) {
    while (Is(at.node, {"Identity", "StopGradient"}) && !HasControlOutputs(at.node)) {
      AddControlInputs(at.node, waits);
      at = Source(at.node, 0);
    }
    return at;
  }

  Status ReadBags() {
    for (const char* type : {"AscCombine", "AscCombineWeightsGrad"}) {
      for (Node* node : numbered_.All(type)) {
        Nodes waits;
        Bag bag;
        bag.feature = FeatureOf(Trace(Source(node, 0), &waits));
        if (bag.feature < 0) continue;
        bag.item = numbered_.ItemOf(node);
        bag.is_gradient = node->type_string() == "AscCombineWeightsGrad";
        TF_RETURN_IF_ERROR(ReadHow(*node, 1, bag.is_gradient || IntOf(node, "w") > 0 ? 2 : -1, &bag.how));
        AddControlInputs(reading_.ops[At(LookupOf(bag.feature).item)], &waits);
        AddControlInputs(node, &waits);
        numbered_.ends.bags[node] = static_cast<int>(step_.bags.size());
        step_.bags.push_back(bag);
        reading_.waits_of_bags.push_back(waits);
      }
    }
    return OkStatus();
  }

  const Lookup& LookupOf(int feature) const { return step_.lookups[At(step_.features[At(feature)].lookup)]; }

  // ---- sums

  Status ReadSums() {
    for (Node* node : numbered_.All("AscLookupGrad")) {
      const int k = IntOf(node, "k");
      Sum sum;
      Nodes passed = {node}, of_rows;
      sum.item = numbered_.ItemOf(node);
      sum.slots = numbered_.ValueOf(Source(node, 0));
      for (int i = 0; i < k; ++i) {
        SumFeature feature;
        feature.restore = numbered_.ValueOf(Source(node, 1 + i));
        Port gradient = Source(node, 1 + k + i);
        if (Node* const found = GradientOfRows(*node, gradient, &passed)) {
          const int w = IntOf(found, "w");
          TF_RETURN_IF_ERROR(ReadHow(*found, 1, w > 0 ? 2 : -1, &feature.how));
          if (IntOf(found, "r") > 0) AddRows(Source(found, 2 + w), &sum);
          of_rows.push_back(found);
          gradient = Source(found, 0);
        }
        feature.gradient = numbered_.ValueOf(gradient);
        numbered_.gradients.push_back(gradient);
        sum.features.push_back(feature);
      }
      numbered_.ends.sums[node] = static_cast<int>(step_.sums.size());
      step_.sums.push_back(sum);
      reading_.waits_of_sums.push_back(passed);  // ReadJoins appends more
      reading_.gradients_of_rows.push_back(of_rows);
    }
    return OkStatus();
  }

  // Returns the AscCombineRowsGrad op that computes an input of a sum. Returns null if another op computes the input,
  // or if the sum cannot replace the AscCombineRowsGrad op. *passed receives the AscCombineRowsGrad op, and the
  // Identity ops between this op and the sum.
  static Node* GradientOfRows(const Node& sum, Port at, Nodes* passed) {
    Nodes between;
    for (; at.node->type_string() == "Identity"; at = Source(at.node, 0)) between.push_back(at.node);
    if (at.node->type_string() != "AscCombineRowsGrad") return nullptr;
    if (IntOf(at.node, "r") > 0) {
      Nodes waits;
      const Port lookup = Trace(Source(at.node, 2 + IntOf(at.node, "w")), &waits);
      if (!Is(lookup.node, {"AscLookup", "AscRestoreRows"}) || !(Source(lookup.node, 1) == Source(&sum, 0)))
        return nullptr;
    }
    passed->insert(passed->end(), between.begin(), between.end());
    passed->push_back(at.node);
    return at.node;
  }

  // Sets `rows` of a sum. A max_norm needs these rows.
  void AddRows(const Port& rows, Sum* sum) {
    Nodes waits;
    const Lookup& lookup = LookupOf(FeatureOf(Trace(rows, &waits)));
    sum->rows = lookup.rows;
    sum->updates = lookup.updates;
    sum->evaluations = lookup.evaluations;
  }

  // ---- ops and their order

  void ReadOps() {
    Nodes order;
    tensorflow::GetReversePostOrder(numbered_.graph, &order);
    std::vector<Branch> branches;
    if (numbered_.has_control_flow()) branches = BranchesOf(numbered_.graph, order);
    std::map<Branch, int> numbers = {{Branch(), 0}};
    std::map<const Node*, Items> waits;
    for (const Node* node : numbered_.waiting) {
      Nodes inputs;
      AddControlInputs(node, &inputs);
      waits[node] = numbered_.ItemsOf(inputs);
    }
    std::map<std::string, int> devices;
    for (const Node* node : reading_.ops) {
      const int device = devices.emplace(node->assigned_device_name(), static_cast<int>(devices.size())).first->second;
      const int loop = numbered_.LoopOf(*node);
      int branch = loop == 0 ? 0 : -1;
      if (loop == 0 && !branches.empty()) {
        const Branch& of = branches[At(node->id())];
        branch = numbers.emplace(of, static_cast<int>(numbers.size())).first->second;
      }
      step_.ops.push_back({node->name(), device, loop, branch, waits[node]});
    }
    step_.order = OrderOf(numbered_.graph, order, reading_.ops, AbsorbedBySums());
  }

  // Returns the nodes that sums will replace. OrderOf uses them to place each sum after the sum's future inputs. Ops
  // that wait for a replaced AscCombineRowsGrad op, such as gated gradients, wait for the sum instead.
  Absorbed AbsorbedBySums() const {
    Absorbed absorbed;
    for (std::size_t i = 0; i < step_.sums.size(); ++i) {
      const Sum& sum = step_.sums[i];
      Node* const node = reading_.ops[At(sum.item)];
      if (!sum.has_bags()) continue;
      Nodes& inputs = absorbed.inputs[node] = reading_.waits_of_sums[i];
      const auto add = [&](Value value) {
        if (value >= 0) inputs.push_back(reading_.values[At(value)].node);
      };
      add(sum.slots);
      add(sum.rows);
      for (const SumFeature& feature : sum.features) {
        for (const Value value : {feature.restore, feature.gradient, feature.how.splits, feature.how.weights})
          add(value);
      }
      for (const Node* of_rows : reading_.gradients_of_rows[i]) absorbed.into[of_rows] = node;
    }
    return absorbed;
  }

  Numbered numbered_;
  Reading& reading_;
  Step& step_;
};

}  // namespace

Status ReadStep(Graph* graph, Reading* reading) { return Reader(graph, reading).Read(); }

}  // namespace step
}  // namespace ascpipe
