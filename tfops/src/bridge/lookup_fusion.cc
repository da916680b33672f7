// Fusion within one step: lookups that a concat joins become one op, and so do their gradients.
#include <algorithm>
#include <set>
#include <vector>

#include "bridge/bag_nodes.h"
#include "bridge/column_cuts.h"
#include "bridge/step_columns.h"
#include "bridge/step_graph.h"
#include "bridge/step_pass.h"
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
struct ConcatPart {
  Port value;
  std::int64_t columns = -1;
  Node* lookup = nullptr;
  int output = 0;  // of the lookup
  Nodes after;     // what the value waits for, of the ops between the lookup and it
};

// An AscLookupGrad, or an AscSum of one table, whose gradients are columns of one tensor.
struct Sum {
  Node* gradient = nullptr;
  Port whole;
  Numbers columns;  // where those of each feature begin
};

class LookupFusion {
 public:
  explicit LookupFusion(Graph* graph) : graph_(*graph) {
    for (Node* node : graph_.op_nodes()) {
      if ((IsLookupOfTable(*node) && HasZerosByDefault(node)) || IsCombineOfTable(*node)) lookups_.insert(node);
      if (node->type_string() == "AscLookupGrad" || IsSumOfBags(*node)) gradients_.push_back(node);
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
    std::vector<ConcatPart> pieces;
    for (int i = 0; i + 1 < concat->num_inputs(); ++i) {
      pieces.push_back(Describe(shapes, Source(concat, i), *concat));
      if (pieces.back().columns < 0) return Status::OK();
    }
    if (std::none_of(pieces.begin(), pieces.end(), [](const ConcatPart& piece) { return piece.lookup; })) {
      return Status::OK();
    }
    TF_RETURN_IF_ERROR(SumTogether(shapes, FindSums(shapes, pieces)));
    std::set<const Node*> gone(replaced_.begin(), replaced_.end());
    gone.insert(concat);
    AddUnread(graph_, &gone);
    const bool has_ids = std::any_of(pieces.begin(), pieces.end(), [&gone](const ConcatPart& piece) {
      return gone.count(piece.lookup) > 0 && !IsCombineOfTable(*piece.lookup);
    });
    Nodes tables;
    for (ConcatPart& piece : pieces) {
      if (gone.count(piece.lookup) == 0 || (has_ids && IsCombineOfTable(*piece.lookup))) {
        piece.lookup = nullptr;  // read by others, too, or of another kind: it stays
      } else if (std::find(tables.begin(), tables.end(), piece.lookup) == tables.end()) {
        tables.push_back(piece.lookup);
      }
    }
    if (tables.empty() || !AreAlike(tables) || !MayReadTogether(tables, concat)) return Status::OK();
    for (const Node* table : tables) lookups_.erase(table);
    return Join(concat, pieces, has_ids ? *tables[0] : *concat);
  }

  bool MayReadTogether(const Nodes& lookups, Node* concat) const {
    Nodes variables;
    std::vector<int> tables;
    for (const Node* lookup : lookups) {
      variables.push_back(Source(lookup, 0).node);
      std::vector<int> numbers;
      if (!tensorflow::GetNodeAttr(lookup->attrs(), "tables", &numbers).ok()) numbers = {IntOf(lookup, "table")};
      tables.insert(tables.end(), numbers.begin(), numbers.end());
    }
    return MayReadAt(graph_, variables, tables, changes_, {concat});
  }

  // What a concat reads at a place.  Its `columns` are -1 where they are not known.
  ConcatPart Describe(const Shapes& shapes, const Port& value, const Node& concat) const {
    ConcatPart piece;
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
        // Rows of [batch, k, dim] side by side, or rows of [batch, dim] as they are, and nothing else.
        if (rank != 2 || !shapes.Read(Source(at.node, 0), &dims) || dims.size() < 2 || dims.size() > 3 ||
            dims[1] <= 0 || dims.back() <= 0 || shapes.Columns(at) != (dims.size() == 2 ? 1 : dims[1]) * dims.back()) {
          return piece;
        }
        rank = dims.size();
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
  std::vector<Sum> FindSums(const Shapes& shapes, const std::vector<ConcatPart>& pieces) const {
    std::vector<Sum> sums;
    for (Node* gradient : gradients_) {
      Sum sum;
      sum.gradient = gradient;
      bool found = true;
      for (int i = 0; i < IntOf(gradient, "k") && found; ++i) {
        const ConcatPart* const piece = PieceOf(gradient, i, pieces);
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

  // Where the slots are among the inputs; restore indices and gradients of features follow.
  static int PlaceOfSlots(const Node* gradient) { return IsSumOfBags(*gradient) ? IntOf(gradient, "r") : 0; }

  static Port GradientOf(const Node* gradient, int feature) {
    return Source(gradient, PlaceOfSlots(gradient) + 1 + IntOf(gradient, "k") + feature);
  }

  // The piece that a feature of a gradient is about: it has the same slots and the same restore index.
  static const ConcatPart* PieceOf(const Node* gradient, int feature, const std::vector<ConcatPart>& pieces) {
    const int slots = PlaceOfSlots(gradient);
    for (const ConcatPart& piece : pieces) {
      if (piece.lookup != nullptr && IsCombineOfTable(*piece.lookup) == IsSumOfBags(*gradient) &&
          Source(piece.lookup, 1) == Source(gradient, slots) &&
          Source(piece.lookup, RestoreOf(piece)) == Source(gradient, slots + 1 + feature)) {
        return &piece;
      }
    }
    return nullptr;
  }

  // The number of the input: an AscRead of bags has one feature, whose default row comes before.
  static int RestoreOf(const ConcatPart& piece) { return IsCombineOfTable(*piece.lookup) ? 3 : 2 + piece.output; }

  // Sums of tables whose gradients are columns of one tensor become one op.
  Status SumTogether(const Shapes& shapes, std::vector<Sum> sums) {
    while (!sums.empty()) {
      const Port whole = sums[0].whole;
      const bool has_bags = IsSumOfBags(*sums[0].gradient);
      const auto others = std::stable_partition(sums.begin(), sums.end(), [&](const Sum& sum) {
        return sum.whole == whole && IsSumOfBags(*sum.gradient) == has_bags;
      });
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
    SumNode sums;
    Nodes after;
    for (const Sum& sum : group) {
      std::size_t feature = sums.features.size();
      TF_RETURN_IF_ERROR(AddSum(*sum.gradient, &sums));
      for (const std::int64_t column : sum.columns) {
        sums.features[feature].grads = sum.whole;
        sums.features[feature++].column = static_cast<int>(column);
      }
      AddWaits(*sum.gradient, sum.whole, &after);
    }
    Node* together;
    TF_RETURN_IF_ERROR(PlaceSum(&graph_, sums, after, *gradients[0], &together));
    return TakePlaceOf(gradients, together);
  }

  // Values and indices of each table.
  Status TakePlaceOf(const Nodes& gradients, Node* together) {
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

  Status CutOthersOut(const Shapes& shapes, const Port& whole) {
    Nodes readers;
    for (const Edge* edge : whole.node->out_edges()) {
      const bool reads = !edge->IsControlEdge() && edge->src_output() == whole.index && edge->dst_input() == 0;
      if (reads && IsInNoFrame(*edge->dst())) readers.push_back(edge->dst());
    }
    ByName(&readers);
    return CutColumns(&graph_, shapes, whole, readers, &replaced_);
  }

  // ---- lookups

  Status Join(Node* concat, const std::vector<ConcatPart>& pieces, const Node& beside) {
    CombineNode read;
    std::vector<int> order;
    Nodes after;
    Port zero;  // a scalar, the default row of all lookups that have one
    const int lookups = static_cast<int>(std::count_if(
        pieces.begin(), pieces.end(), [](const ConcatPart& piece) { return piece.lookup != nullptr; }));
    for (const ConcatPart& piece : pieces) {
      if (piece.lookup == nullptr) {
        order.push_back(lookups + static_cast<int>(read.others.size()));
        read.others.push_back(piece.value);
        continue;
      }
      order.push_back(static_cast<int>(read.features.size()));
      after.insert(after.end(), piece.after.begin(), piece.after.end());
      if (IsCombineOfTable(*piece.lookup)) {
        TF_RETURN_IF_ERROR(AddCombine(*piece.lookup, &read));
        continue;
      }
      Port default_row = Source(piece.lookup, piece.lookup->num_inputs() - 1);
      tensorflow::Tensor row;
      if (ReadTensor(default_row.node, &row) && row.dims() == 0) {
        if (zero.node == nullptr) zero = default_row;
        default_row = zero;
      }
      read.features.push_back({Source(piece.lookup, 0), Source(piece.lookup, 1), Source(piece.lookup, 2 + piece.output),
                               default_row, Port(), Port(), "", 0, IntOf(piece.lookup, "table")});
    }
    read.outputs = {order};
    AddControlInputs(concat, &after);
    Node* joined;
    TF_RETURN_IF_ERROR(PlaceCombine(&graph_, "ascpipe/look_up_together", read, after, beside, &joined));
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

}  // namespace

Status FuseLookups(Graph* graph) { return LookupFusion(graph).Apply(); }

}  // namespace ascpipe
