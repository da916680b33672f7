#include "bridge/lookup_fusion.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "bridge/step_columns.h"
#include "bridge/step_graph.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/control_flow.h"

namespace ascpipe {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// Something that a concat joins: a lookup, or (lookup = null) other columns.
struct Piece {
  Port value;
  std::int64_t columns = -1;
  Node* lookup = nullptr;
  int output = 0;  // of the lookup
  Nodes after;     // what the value waits for, of the ops between the lookup and it
};

// An AscLookupGrad whose gradients are columns of one tensor.
struct Sum {
  Node* gradient = nullptr;
  Port whole;
  Numbers columns;  // where those of each feature begin
};

class LookupFusion {
 public:
  explicit LookupFusion(Graph* graph) : graph_(*graph) {
    for (Node* node : graph_.op_nodes()) {
      if (IsLookupOfTable(*node) && HasZerosByDefault(node)) lookups_.insert(node);
      if (node->type_string() == "AscLookupGrad") gradients_.push_back(node);
      if (node->type_string() == "SplitV") splits_.push_back(node);
      if (IsConcatOfColumns(node)) concats_.push_back(node);
      changes_ = changes_ || IsChange(*node);
    }
    ByName(&gradients_);
    ByName(&concats_);
  }

  Status Apply() {
    if (lookups_.empty() || concats_.empty()) return Status::OK();
    TF_RETURN_IF_ERROR(tensorflow::BuildControlFlowInfo(&graph_, &frames_));
    Nodes shaped = concats_;
    shaped.insert(shaped.end(), splits_.begin(), splits_.end());
    const Shapes shapes(graph_, shaped);
    for (Node* concat : concats_) TF_RETURN_IF_ERROR(Fuse(shapes, concat));
    RemoveReplaced();
    return Status::OK();
  }

 private:
  // A lookup of one table: in its variable, or of several ranks in the rows that came.
  static bool IsLookupOfTable(const Node& node) {
    return node.type_string() == "AscLookup" ||
           (node.type_string() == "AscRestoreRows" && Source(&node, 0).node->type_string() == "AscForward");
  }

  static bool HasZerosByDefault(const Node* lookup) {
    tensorflow::Tensor row;
    if (!ReadTensor(Source(lookup, lookup->num_inputs() - 1).node, &row)) return false;
    const auto values = row.flat<float>();
    return std::all_of(values.data(), values.data() + values.size(), [](float value) { return value == 0; });
  }

  static bool IsConcatOfColumns(const Node* node) {
    return node->type_string() == "ConcatV2" && node->output_type(0) == tensorflow::DT_FLOAT &&
           IsColumnAxis(Source(node, node->num_inputs() - 1));
  }

  Status Fuse(const Shapes& shapes, Node* concat) {
    std::vector<Piece> pieces;
    for (int i = 0; i + 1 < concat->num_inputs(); ++i) {
      pieces.push_back(Describe(shapes, Source(concat, i), *concat));
      if (pieces.back().columns < 0) return Status::OK();
    }
    if (std::none_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.lookup; })) return Status::OK();
    TF_RETURN_IF_ERROR(SumTogether(shapes, FindSums(shapes, pieces)));
    std::set<const Node*> gone(replaced_.begin(), replaced_.end());
    gone.insert(concat);
    AddUnread(graph_, &gone);
    Nodes tables;
    for (Piece& piece : pieces) {
      if (gone.count(piece.lookup) == 0) {
        piece.lookup = nullptr;  // read by others, too: it stays
      } else if (std::find(tables.begin(), tables.end(), piece.lookup) == tables.end()) {
        tables.push_back(piece.lookup);
      }
    }
    if (tables.empty() || !AreAlike(tables) || !MayReadTogether(tables, concat)) return Status::OK();
    for (const Node* table : tables) lookups_.erase(table);
    return Join(concat, pieces, tables);
  }

  // Whether lookups read the same rows as now if they are done where the concat is.  Lookups of an evaluation may
  // come before or after what changes tables in the step (step_order.h), each for itself; so may lookups and updates of
  // the same rows, if the program orders some of them.
  bool MayReadTogether(const Nodes& lookups, const Node* concat) const {
    const auto evaluates = [](const Node* lookup) { return IntOf(lookup, "table") >= 0; };
    if (std::any_of(lookups.begin(), lookups.end(), evaluates)) {
      return std::all_of(lookups.begin(), lookups.end(), evaluates) && !changes_;
    }
    Nodes variables;
    for (const Node* lookup : lookups) variables.push_back(Source(lookup, 0).node);
    return !After(graph_, Updates(variables)).has(concat);
  }

  // What a concat reads at a place.  Its `columns` are -1 where they are not known.
  Piece Describe(const Shapes& shapes, const Port& value, const Node& concat) const {
    Piece piece;
    piece.value = value;
    piece.columns = shapes.Columns(value);
    Nodes after;
    std::size_t rank = 2;
    for (Port at = value; at.node != nullptr && !HasControlOutputs(at.node); at = Source(at.node, 0)) {
      AddControlInputs(at.node, &after);
      Numbers dims;
      if (lookups_.count(at.node) > 0) {
        if (!IsInFrameOf(*at.node, concat) || !shapes.Read(at, &dims) || dims.size() != rank) return piece;
        piece.lookup = at.node;
        piece.output = at.index;
        piece.after = after;
        return piece;
      }
      if (Is(at.node, {"Reshape", "Squeeze"})) {
        // Rows of [batch, k, dim] side by side, and nothing else.
        if (rank != 2 || !shapes.Read(Source(at.node, 0), &dims) || dims.size() != 3 || dims[1] <= 0 || dims[2] <= 0 ||
            shapes.Columns(at) != dims[1] * dims[2]) {
          return piece;
        }
        rank = 3;
      } else if (!Is(at.node, {"Identity", "StopGradient"})) {
        return piece;
      }
    }
    return piece;
  }

  bool IsInFrameOf(const Node& a, const Node& b) const {
    return frames_[static_cast<std::size_t>(a.id())].frame == frames_[static_cast<std::size_t>(b.id())].frame;
  }

  bool IsInNoFrame(const Node& node) const {
    const std::size_t id = static_cast<std::size_t>(node.id());
    return id < frames_.size() && frames_[id].frame->IsSource();
  }

  static bool AreAlike(const Nodes& nodes) {
    return std::all_of(nodes.begin(), nodes.end(), [&nodes](const Node* node) {
      return node->type_string() == nodes[0]->type_string() &&
             node->assigned_device_name() == nodes[0]->assigned_device_name();
    });
  }

  // ---- gradients

  // The gradients of the lookups among `pieces` that can be read where they are.
  std::vector<Sum> FindSums(const Shapes& shapes, const std::vector<Piece>& pieces) const {
    std::vector<Sum> sums;
    for (Node* gradient : gradients_) {
      Sum sum;
      sum.gradient = gradient;
      bool found = true;
      for (int i = 0; i < IntOf(gradient, "k") && found; ++i) {
        const Piece* const piece = PieceOf(gradient, i, pieces);
        std::int64_t begin = 0;
        Port whole;
        found = piece != nullptr && FindColumns(shapes, GradientOf(gradient, i), piece->columns, &begin, &whole) &&
                (i == 0 || whole == sum.whole);
        sum.whole = whole;
        sum.columns.push_back(begin);
      }
      if (found) sums.push_back(sum);
    }
    return sums;
  }

  static Port GradientOf(const Node* gradient, int feature) {
    return Source(gradient, 1 + IntOf(gradient, "k") + feature);
  }

  // The piece that a feature of a gradient is about: it has the same slots and the same restore index.
  static const Piece* PieceOf(const Node* gradient, int feature, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      if (piece.lookup != nullptr && Source(piece.lookup, 1) == Source(gradient, 0) &&
          Source(piece.lookup, 2 + piece.output) == Source(gradient, 1 + feature)) {
        return &piece;
      }
    }
    return nullptr;
  }

  // Sums of tables whose gradients are columns of one tensor become one op.
  Status SumTogether(const Shapes& shapes, std::vector<Sum> sums) {
    while (!sums.empty()) {
      const Port whole = sums[0].whole;
      const auto others = std::stable_partition(sums.begin(), sums.end(),
                                                [&whole](const Sum& sum) { return sum.whole == whole; });
      const std::vector<Sum> group(sums.begin(), others);
      sums.erase(sums.begin(), others);
      Nodes gradients;
      for (const Sum& sum : group) gradients.push_back(sum.gradient);
      // Where one waits for another, as the program may have it, they cannot be one.
      if (AreAlike(gradients) && !After(graph_, gradients).has_any(gradients)) {
        TF_RETURN_IF_ERROR(ReplaceSums(group, gradients));
        TF_RETURN_IF_ERROR(CutOthersOut(shapes, whole));
      }
    }
    return Status::OK();
  }

  Status ReplaceSums(const std::vector<Sum>& group, const Nodes& gradients) {
    std::vector<NodeBuilder::NodeOut> slots, restore;
    std::vector<tensorflow::int64> dims, sources, columns;
    std::vector<bool> partial;
    Nodes after;
    for (const Sum& sum : group) {
      slots.push_back(Source(sum.gradient, 0).out());
      for (std::size_t i = 0; i < sum.columns.size(); ++i) {
        restore.push_back(Source(sum.gradient, 1 + static_cast<int>(i)).out());
        sources.push_back(static_cast<tensorflow::int64>(dims.size()));
        columns.push_back(sum.columns[i]);
      }
      dims.push_back(IntOf(sum.gradient, "dim"));
      partial.push_back(IsTrue(*sum.gradient, "partial"));
      AddWaits(*sum.gradient, group[0].whole, &after);
    }
    NodeBuilder builder(graph_.NewName("ascpipe/sum_together"), "AscLookupConcatGrad", graph_.op_registry());
    builder.Input(slots).Input(restore).Input(group[0].whole.out());
    builder.Attr("dims", dims).Attr("sources", sources).Attr("columns", columns).Attr("partial", partial);
    Node* together;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, after, *gradients[0], &together));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      TF_RETURN_IF_ERROR(
          Repoint(&graph_, gradients[i], together, {static_cast<int>(i), static_cast<int>(gradients.size() + i)}));
      replaced_.push_back(gradients[i]);
      gradients_.erase(std::find(gradients_.begin(), gradients_.end(), gradients[i]));
    }
    return Status::OK();
  }

  // What a gradient waits for besides its inputs.  TensorFlow lets each column's gradient wait for those of all others;
  // the op that reads them where they are waits for the whole tensor.
  static void AddWaits(const Node& node, const Port& whole, Nodes* waits) {
    Nodes inputs;
    AddControlInputs(&node, &inputs);
    for (Node* input : inputs) {
      const bool is_column = Is(input, {"Slice", "SplitV"}) && Source(input, 0) == whole;
      if (is_column || input->type_string() == "NoOp") {
        AddWaits(*input, whole, waits);
      } else {
        waits->push_back(input);
      }
    }
  }

  // Lets gradients of other columns be cut out of `whole` where they are known to lie, so that nothing asks for the shapes
  // of the lookups beside them.
  Status CutOthersOut(const Shapes& shapes, const Port& whole) {
    std::set<const Node*> gone(replaced_.begin(), replaced_.end());
    AddUnread(graph_, &gone);
    Nodes readers;
    for (const Edge* edge : whole.node->out_edges()) {
      const bool reads = !edge->IsControlEdge() && edge->src_output() == whole.index && edge->dst_input() == 0;
      if (reads && gone.count(edge->dst()) == 0 && IsInNoFrame(*edge->dst())) readers.push_back(edge->dst());
    }
    ByName(&readers);
    for (Node* reader : readers) {
      if (reader->type_string() == "Slice") TF_RETURN_IF_ERROR(CutSlice(shapes, reader));
      if (reader->type_string() == "SplitV") TF_RETURN_IF_ERROR(CutSplit(shapes, whole, reader, gone));
    }
    return Status::OK();
  }

  Status CutSlice(const Shapes& shapes, Node* slice) {
    const Port size = Source(slice, 2);
    std::int64_t column;
    if (Source(slice, 1).node->type_string() != "ConcatOffset" || !BeginOfSlice(shapes, Source(slice, 1), &column) ||
        size.node->type_string() != "ShapeN") {
      return Status::OK();
    }
    Node *begin, *shape;
    TF_RETURN_IF_ERROR(PlacePair(&graph_, 0, column, *slice, &begin));
    NodeBuilder builder(graph_.NewName("ascpipe/shape"), "Shape", graph_.op_registry());
    TF_RETURN_IF_ERROR(Place(&graph_, &builder.Input(Source(size.node, size.index).out()), {}, *slice, &shape));
    TF_RETURN_IF_ERROR(graph_.UpdateEdge(begin, 0, slice, 1));
    return graph_.UpdateEdge(shape, 0, slice, 2);
  }

  Status CutSplit(const Shapes& shapes, const Port& whole, Node* split, const std::set<const Node*>& gone) {
    Numbers sizes;
    if (!IsColumnAxis(Source(split, 2)) || !shapes.IsMatrix(whole) || !SizesOfSplit(shapes, Source(split, 1), &sizes) ||
        HasControlOutputs(split) || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) {
      return Status::OK();
    }
    std::map<int, Node*> slices;
    const std::vector<const Edge*> edges(split->out_edges().begin(), split->out_edges().end());
    for (const Edge* edge : edges) {
      if (edge->IsControlEdge() || gone.count(edge->dst()) > 0) continue;
      Node*& slice = slices[edge->src_output()];
      if (slice == nullptr) {
        const auto output = sizes.begin() + edge->src_output();
        Node *begin, *size;
        TF_RETURN_IF_ERROR(PlacePair(&graph_, 0, std::accumulate(sizes.begin(), output, std::int64_t{0}), *split, &begin));
        TF_RETURN_IF_ERROR(PlacePair(&graph_, -1, *output, *split, &size));
        NodeBuilder builder(graph_.NewName("ascpipe/slice"), "Slice", graph_.op_registry());
        TF_RETURN_IF_ERROR(Place(&graph_, &builder.Input(whole.out()).Input(begin).Input(size), {}, *split, &slice));
      }
      TF_RETURN_IF_ERROR(graph_.UpdateEdge(slice, 0, edge->dst(), edge->dst_input()));
    }
    replaced_.push_back(split);
    return Status::OK();
  }

  // ---- lookups

  Status Join(Node* concat, const std::vector<Piece>& pieces, const Nodes& tables) {
    std::vector<NodeBuilder::NodeOut> rows, slots, restore, others;
    std::vector<tensorflow::int64> numbers, sources, order;
    Nodes after;
    for (const Node* table : tables) {
      rows.push_back(Source(table, 0).out());
      slots.push_back(Source(table, 1).out());
      numbers.push_back(IntOf(table, "table"));
    }
    const auto lookups = std::count_if(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.lookup; });
    for (const Piece& piece : pieces) {
      if (piece.lookup == nullptr) {
        order.push_back(lookups + static_cast<tensorflow::int64>(others.size()));
        others.push_back(piece.value.out());
        continue;
      }
      order.push_back(static_cast<tensorflow::int64>(restore.size()));
      restore.push_back(Source(piece.lookup, 2 + piece.output).out());
      sources.push_back(std::find(tables.begin(), tables.end(), piece.lookup) - tables.begin());
      after.insert(after.end(), piece.after.begin(), piece.after.end());
    }
    AddControlInputs(concat, &after);
    const bool has_tables = tables[0]->type_string() == "AscLookup";
    NodeBuilder builder(graph_.NewName("ascpipe/look_up_together"),
                        has_tables ? "AscLookupConcat" : "AscRestoreRowsConcat", graph_.op_registry());
    builder.Input(rows).Input(slots).Input(restore).Input(others).Attr("sources", sources).Attr("order", order);
    if (has_tables) builder.Attr("tables", numbers);
    Node* joined;
    TF_RETURN_IF_ERROR(Place(&graph_, &builder, after, *tables[0], &joined));
    replaced_.push_back(concat);
    return Repoint(&graph_, concat, joined, {0});
  }

  // At the end, as a new node may get the address of one that was removed.
  void RemoveReplaced() {
    std::set<const Node*> gone(replaced_.begin(), replaced_.end());
    AddUnread(graph_, &gone);
    for (const Node* node : gone) graph_.RemoveNode(const_cast<Node*>(node));
    tensorflow::FixupSourceAndSinkEdges(&graph_);
  }

  Graph& graph_;
  std::set<const Node*> lookups_;
  Nodes gradients_, splits_, concats_;
  bool changes_ = false;  // whether the step changes tables
  std::vector<tensorflow::ControlFlowInfo> frames_;  // by node
  Nodes replaced_;
};

// A session runs this pass once per set of fetches, on the graph pruned to them, before that of table_fusion.cc.
class LookupFusionPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    return options.graph == nullptr || *options.graph == nullptr ? Status::OK() : FuseLookups(options.graph->get());
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, -2, LookupFusionPass);

}  // namespace

Status FuseLookups(Graph* graph) { return LookupFusion(graph).Apply(); }

}  // namespace ascpipe
