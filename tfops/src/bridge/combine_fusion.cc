// Lookups whose rows are combined to one for each bag: in the graph of a step one op that reads the table, and one
// that sums gradients, instead of tensors with a row for each id (docs/internals/adr, 49).
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bridge/bag_nodes.h"
#include "bridge/step_graph.h"
#include "bridge/step_pass.h"
#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

using Outs = std::vector<NodeBuilder::NodeOut>;

// A node that reads rows of a lookup for each id.
struct Reader {
  Node* node = nullptr;  // AscCombine or AscCombineWeightsGrad
  Nodes between;         // ops that pass the rows on
  Nodes after;           // what these wait for
};

// A gradient of a lookup's rows.
struct Gradient {
  Node* of_rows = nullptr;  // AscCombineRowsGrad, or null: another one
  Nodes after;
};

class CombineFusion {
 public:
  explicit CombineFusion(Graph* graph) : graph_(*graph) {
    for (Node* node : graph_.op_nodes()) {
      if (Is(node, {"AscLookup", "AscRestoreRows"})) lookups_.push_back(node);
      if (node->type_string() == "AscLookupGrad") sums_.push_back(node);
      has_bags_ = has_bags_ || node->type_string() == "AscCombine";
      changes_ = changes_ || IsChange(*node);
    }
    ByName(&lookups_);
    ByName(&sums_);
  }

  Status Apply() {
    if (!has_bags_) return Status::OK();
    for (Node* sum : sums_) TF_RETURN_IF_ERROR(FuseSum(sum));
    RemoveReplaced();  // gradients of rows that nothing reads any more would read the rows
    for (Node* lookup : lookups_) TF_RETURN_IF_ERROR(FuseLookup(lookup));
    RemoveReplaced();
    return Status::OK();
  }

 private:
  // ---- gradients

  Status FuseSum(Node* sum) {
    const int k = IntOf(sum, "k");
    std::vector<Gradient> gradients;
    Nodes after;
    bool any = false;
    Port rows;
    for (int i = 0; i < k; ++i) {
      gradients.push_back(Describe(sum, Source(sum, 1 + k + i), &rows));
      after.insert(after.end(), gradients.back().after.begin(), gradients.back().after.end());
      any = any || gradients.back().of_rows != nullptr;
    }
    if (!any) return Status::OK();
    Outs tables, restore, grads, splits, weights;
    std::vector<int> bags, weighted, sources;
    std::vector<std::string> combiners;
    std::vector<float> max_norms;
    for (int i = 0; i < k; ++i) {
      sources.push_back(i);
      const Node* const of_rows = gradients[static_cast<std::size_t>(i)].of_rows;
      const Node* const from = of_rows == nullptr ? sum : of_rows;
      restore.push_back(Source(sum, 1 + i).out());
      grads.push_back(Source(from, of_rows == nullptr ? 1 + k + i : 0).out());
      bags.push_back(of_rows == nullptr ? -1 : static_cast<int>(splits.size()));
      const bool has_weights = of_rows != nullptr && IntOf(of_rows, "w") > 0;
      weighted.push_back(has_weights ? static_cast<int>(weights.size()) : -1);
      combiners.emplace_back();
      max_norms.push_back(0);
      if (of_rows == nullptr) continue;
      splits.push_back(Source(of_rows, 1).out());
      if (has_weights) weights.push_back(Source(of_rows, 2).out());
      TF_RETURN_IF_ERROR(ReadAttributes(*of_rows, &combiners.back(), &max_norms.back()));
    }
    if (rows.node != nullptr) tables.push_back(rows.out());
    AddControlInputs(sum, &after);
    NodeBuilder builder(graph_.NewName("ascpipe/sum_of_bags"), "AscSum", graph_.op_registry());
    builder.Input(tables).Input(Outs{Source(sum, 0).out()}).Input(restore).Input(grads).Input(splits).Input(weights);
    builder.Attr("bags", bags).Attr("weighted", weighted).Attr("combiners", combiners).Attr("max_norms", max_norms);
    builder.Attr("dims", std::vector<int>{IntOf(sum, "dim")});
    builder.Attr("partial", std::vector<bool>{IsTrue(*sum, "partial")});
    builder.Attr("rows_of", std::vector<int>{tables.empty() ? -1 : 0}).Attr("sources", sources);
    builder.Attr("tables", std::vector<int>(static_cast<std::size_t>(k), 0));
    builder.Attr("columns", std::vector<int>(static_cast<std::size_t>(k), -1));
    Node* fused;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, after, *sum, &fused));
    replaced_.insert(sum);
    TF_RETURN_IF_ERROR(Repoint(&graph_, sum, fused, {0, 1}));
    for (const Gradient& gradient : gradients) {
      if (gradient.of_rows != nullptr) WaitForSum(gradient.of_rows, fused);
    }
    return Status::OK();
  }

  // What waits for a gradient of rows, as gated gradients do, waits for the sum instead.
  void WaitForSum(Node* of_rows, Node* fused) {
    const std::vector<const Edge*> edges(of_rows->out_edges().begin(), of_rows->out_edges().end());
    for (const Edge* edge : edges) {
      if (!edge->IsControlEdge() || !edge->dst()->IsOp() || After(graph_, {edge->dst()}).has(fused)) continue;
      graph_.AddControlEdge(fused, edge->dst());
      graph_.RemoveControlEdge(edge);
    }
  }

  // What a gradient of rows is.  `rows`: the rows that slots name, where a max_norm needs them.
  Gradient Describe(const Node* sum, const Port& value, Port* rows) const {
    Gradient found;
    Node* node = value.node;
    Nodes between;
    for (; node->type_string() == "Identity"; node = Source(node, 0).node) between.push_back(node);
    if (node->type_string() != "AscCombineRowsGrad") return Gradient();
    if (IntOf(node, "r") > 0) {
      Reader reader;
      const Port lookup = Trace(Source(node, 2 + IntOf(node, "w")), &reader);
      if (!Is(lookup.node, {"AscLookup", "AscRestoreRows"}) || !(Source(lookup.node, 1) == Source(sum, 0))) {
        return Gradient();
      }
      *rows = Source(lookup.node, 0);
    }
    found.of_rows = node;
    for (const Node* passing : between) AddWaits(*passing, &found.after);
    AddWaits(*node, &found.after);
    return found;
  }

  // What a node waits for besides its inputs, without gradients that nothing reads: gated ones wait for each other.
  static void AddWaits(const Node& node, Nodes* waits) {
    Nodes inputs;
    AddControlInputs(&node, &inputs);
    for (Node* input : inputs) {
      if (input->type_string() == "NoOp") {
        AddWaits(*input, waits);
      } else if (input->type_string() != "AscCombineRowsGrad" &&
                 (input->type_string() != "AscCombineWeightsGrad" || IsRead(*input))) {
        waits->push_back(input);
      }
    }
  }

  static bool IsRead(const Node& node) {
    const auto& edges = node.out_edges();
    return std::any_of(edges.begin(), edges.end(), [](const Edge* edge) { return !edge->IsControlEdge(); });
  }

  static Status ReadAttributes(const Node& node, std::string* combiner, float* max_norm) {
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(node.attrs(), "combiner", combiner));
    return tensorflow::GetNodeAttr(node.attrs(), "max_norm", max_norm);
  }

  // ---- lookups

  // Where rows come from, through ops that pass them on.
  static Port Trace(Port at, Reader* reader) {
    while (Is(at.node, {"Identity", "StopGradient"}) && !HasControlOutputs(at.node)) {
      AddControlInputs(at.node, &reader->after);
      reader->between.push_back(at.node);
      at = Source(at.node, 0);
    }
    return at;
  }

  Status FuseLookup(Node* lookup) {
    if (HasControlOutputs(lookup)) return Status::OK();
    std::map<int, std::vector<Reader>> readers;  // by output
    std::set<int> others;                        // outputs that something else reads
    for (const Edge* edge : lookup->out_edges()) {
      if (edge->IsControlEdge()) continue;
      Reader reader;
      if (!FindReaders(edge, reader, &readers[edge->src_output()])) others.insert(edge->src_output());
    }
    std::set<int> fused;
    for (const auto& entry : readers) {
      const auto may = [&](const Reader& reader) { return MayRead(lookup, reader); };
      if (others.count(entry.first) > 0 || !std::all_of(entry.second.begin(), entry.second.end(), may)) continue;
      fused.insert(entry.first);
      for (const Reader& reader : entry.second) TF_RETURN_IF_ERROR(Fuse(lookup, entry.first, reader));
    }
    return fused.empty() ? Status::OK() : LeaveOut(lookup, fused);
  }

  // Adds the readers at the end of an edge; false: something else reads there.
  static bool FindReaders(const Edge* edge, Reader reader, std::vector<Reader>* found) {
    Node* const node = edge->dst();
    if (Is(node, {"AscCombine", "AscCombineWeightsGrad"}) && edge->dst_input() == 0 && IntOf(node, "f") <= 0) {
      reader.node = node;
      found->push_back(reader);
      return true;
    }
    if (!Is(node, {"Identity", "StopGradient"}) || HasControlOutputs(node)) return false;
    AddControlInputs(node, &reader.after);
    reader.between.push_back(node);
    for (const Edge* next : node->out_edges()) {
      if (!next->dst()->IsOp()) continue;
      if (!FindReaders(next, reader, found)) return false;
    }
    return true;
  }

  // Whether rows of a table are the same as now if they are read later, by the reader: not where the step changes
  // tables and an evaluation may come before or after (step_order.h), nor where the program lets an update come first.
  bool MayRead(const Node* lookup, const Reader& reader) const {
    if (lookup->type_string() != "AscLookup") return true;
    if (IntOf(lookup, "table") >= 0 && changes_) return false;
    return !After(graph_, Updates({Source(lookup, 0).node})).has(reader.node);
  }

  Status Fuse(Node* lookup, int output, const Reader& reader) {
    Node* const node = reader.node;
    const bool is_gradient = node->type_string() == "AscCombineWeightsGrad";
    const int k = IntOf(lookup, "k");
    std::string combiner;
    float max_norm;
    TF_RETURN_IF_ERROR(ReadAttributes(*node, &combiner, &max_norm));
    const auto one = [](const Port& port) { return std::vector<NodeBuilder::NodeOut>{port.out()}; };
    const int table = lookup->type_string() == "AscLookup" ? IntOf(lookup, "table") : -1;
    Nodes after = reader.after;
    AddControlInputs(lookup, &after);
    AddControlInputs(node, &after);
    Node* fused;
    if (is_gradient) {
      NodeBuilder builder(graph_.NewName("ascpipe/combine"), node->type_string(), graph_.op_registry());
      builder.Input(Source(lookup, 0).out()).Input(one(Source(lookup, 1))).Input(one(Source(lookup, 2 + output)));
      builder.Input(one(Source(lookup, 2 + k))).Input(Source(node, 1).out());
      builder.Input(Source(node, 2).out()).Input(Source(node, 3).out());
      builder.Attr("combiner", combiner).Attr("max_norm", max_norm).Attr("table", table);
      TF_RETURN_IF_ERROR(Place(&graph_, &builder, after, *lookup, &fused));
    } else {
      const Port weights = IntOf(node, "w") > 0 ? Source(node, 2) : Port();
      const CombineNode combine = {{{Source(lookup, 0), Source(lookup, 1), Source(lookup, 2 + output),
                                     Source(lookup, 2 + k), Source(node, 1), weights, combiner, max_norm, table}},
                                   {}, {{0}}};
      TF_RETURN_IF_ERROR(PlaceCombine(&graph_, "ascpipe/combine", combine, after, *lookup, &fused));
    }
    replaced_.insert(node);
    replaced_.insert(reader.between.begin(), reader.between.end());
    return Repoint(&graph_, node, fused, {0});
  }

  // The lookup without some of its features.
  Status LeaveOut(Node* lookup, const std::set<int>& features) {
    const int k = IntOf(lookup, "k");
    std::vector<NodeBuilder::NodeOut> restore;
    std::vector<Port> outputs(static_cast<std::size_t>(k));
    std::vector<int> left;
    for (int i = 0; i < k; ++i) {
      if (features.count(i) > 0) continue;
      left.push_back(i);
      restore.push_back(Source(lookup, 2 + i).out());
    }
    replaced_.insert(lookup);
    if (std::none_of(lookup->out_edges().begin(), lookup->out_edges().end(), [&](const Edge* edge) {
          return !edge->IsControlEdge() && features.count(edge->src_output()) == 0;
        })) {
      return Status::OK();
    }
    NodeBuilder builder(graph_.NewName("ascpipe/look_up_others"), lookup->type_string(), graph_.op_registry());
    builder.Input(Source(lookup, 0).out()).Input(Source(lookup, 1).out()).Input(restore);
    builder.Input(Source(lookup, 2 + k).out());
    if (lookup->type_string() == "AscLookup") builder.Attr("table", IntOf(lookup, "table"));
    Nodes after;
    AddControlInputs(lookup, &after);
    Node* rest;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, after, *lookup, &rest));
    for (std::size_t i = 0; i < left.size(); ++i) outputs[static_cast<std::size_t>(left[i])] = {rest, static_cast<int>(i)};
    const std::vector<const Edge*> edges(lookup->out_edges().begin(), lookup->out_edges().end());
    for (const Edge* edge : edges) {
      if (edge->IsControlEdge() || features.count(edge->src_output()) > 0) continue;
      const Port& output = outputs[static_cast<std::size_t>(edge->src_output())];
      TF_RETURN_IF_ERROR(graph_.UpdateEdge(output.node, output.index, edge->dst(), edge->dst_input()));
    }
    return Status::OK();
  }

  // What was replaced, and what only it read.  At the end of a pass over nodes, as a new one may get the address of one
  // that was removed.
  void RemoveReplaced() {
    if (replaced_.empty()) return;
    AddUnread(graph_, &replaced_);
    const auto gone = [this](const Node* node) { return replaced_.count(node) > 0; };
    lookups_.erase(std::remove_if(lookups_.begin(), lookups_.end(), gone), lookups_.end());
    for (const Node* node : replaced_) graph_.RemoveNode(const_cast<Node*>(node));
    replaced_.clear();
    tensorflow::FixupSourceAndSinkEdges(&graph_);
  }

  Graph& graph_;
  Nodes lookups_, sums_;
  bool has_bags_ = false;
  bool changes_ = false;  // whether the step changes tables
  std::set<const Node*> replaced_;
};

}  // namespace

Status FuseCombines(tensorflow::Graph* graph) { return CombineFusion(graph).Apply(); }

}  // namespace ascpipe
