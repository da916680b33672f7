// Reads the joins of a step. A join is a concat of columns. Also reads the columns that ops cut out of the gradients of
// joins.
#include <algorithm>

#include "graph/numbered.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Node;

namespace {

bool IsConcatOfColumns(const Node& node) {
  return node.type_string() == "ConcatV2" && node.output_type(0) == tensorflow::DT_FLOAT &&
         IsColumnAxis(Source(&node, node.num_inputs() - 1));
}

class JoinReader {
 public:
  explicit JoinReader(Numbered* all) : all_(*all), reading_(all->reading), step_(all->step) {}

  void Read() {
    Nodes joins;
    for (Node* node : all_.All("ConcatV2")) {
      if (IsConcatOfColumns(*node)) joins.push_back(node);
    }
    if (step_.lookups.empty() || joins.empty()) return;
    reading_.shapes.reset(new Shapes(all_.graph));
    for (Node* node : joins) {
      Join join;
      join.item = all_.ItemOf(node);
      reading_.waits_of_pieces.emplace_back();
      for (int i = 0; i < IntOf(node, "N"); ++i) {
        Nodes waits;
        join.pieces.push_back(Describe(Source(node, i), *node, &waits));
        reading_.waits_of_pieces.back().push_back(waits);
      }
      all_.ends.joins[node] = static_cast<int>(step_.joins.size());
      step_.joins.push_back(join);
    }
    ReadColumns();
  }

 private:
  // Describes an input of a concat as a piece.
  Piece Describe(const Port& value, const Node& concat, Nodes* waits) {
    Piece piece;
    piece.value = all_.ValueOf(value);
    piece.columns = static_cast<int>(reading_.shapes->Columns(value));
    Nodes passed;
    std::size_t rank = 2;
    for (Port at = value; at.node != nullptr && !HasControlOutputs(at.node); at = Source(at.node, 0)) {
      passed.push_back(at.node);
      Numbers dims;
      const auto found = all_.features.find({at.node, at.index});
      const int feature = found == all_.features.end() ? -1 : found->second;
      const auto bag = all_.ends.bags.find(at.node);
      if (feature >= 0 || bag != all_.ends.bags.end()) {
        if (all_.LoopOf(*at.node) != all_.LoopOf(concat) || !reading_.shapes->Read(at, &dims) || dims.size() != rank)
          return piece;
        piece.feature = feature;
        if (feature < 0) piece.bag = bag->second;
        for (const Node* node : passed) AddControlInputs(node, waits);
        return piece;
      }
      if (Is(at.node, {"Reshape", "Squeeze"})) {
        // Accept a reshape of [batch, k, dim] to [batch, k * dim], and a reshape of [batch, dim] that does not change
        // the rows.
        if (rank != 2 || !reading_.shapes->Read(Source(at.node, 0), &dims) || dims.size() < 2 || dims.size() > 3 ||
            dims[1] <= 0 || dims.back() <= 0 ||
            reading_.shapes->Columns(at) != (dims.size() == 2 ? 1 : dims[1]) * dims.back()) {
          return piece;
        }
        rank = dims.size();
      } else if (!Is(at.node, {"Identity", "StopGradient"})) {
        return piece;
      }
    }
    return piece;
  }

  // Finds gradients that are columns of a larger tensor, and all ops that cut columns out of the larger tensor.
  void ReadColumns() {
    auto gradient = all_.gradients.begin();
    for (std::size_t i = 0; i < step_.sums.size(); ++i) {
      for (SumFeature& feature : step_.sums[i].features) {
        Columns columns;
        Nodes passed;
        const bool found = FindColumns(*reading_.shapes, *gradient++, &columns, &passed);
        if (columns.cut != nullptr) AddCuts(columns.whole);
        if (!found) continue;
        feature.whole = all_.ValueOf(columns.whole);
        feature.begin = static_cast<int>(columns.begin);
        feature.columns = static_cast<int>(columns.count);
        reading_.waits_of_sums[i].insert(reading_.waits_of_sums[i].end(), passed.begin(), passed.end());
      }
    }
  }

  void AddCuts(const Port& whole) {
    Nodes cuts;
    for (const Edge* edge : whole.node->out_edges()) {
      Node* const node = edge->dst();
      const bool reads = !edge->IsControlEdge() && edge->src_output() == whole.index && edge->dst_input() == 0;
      if (reads && Is(node, {"Slice", "SplitV"}) && all_.LoopOf(*node) == 0) cuts.push_back(node);
    }
    ByName(&cuts);
    for (Node* node : cuts) {
      if (!all_.ends.cuts.emplace(node, static_cast<int>(step_.cuts.size())).second) continue;
      step_.cuts.push_back({all_.ValueOf(whole), HasKnownPlace(*reading_.shapes, *node), {}});
      reading_.cuts.push_back(node);
    }
  }

  Numbered& all_;
  Reading& reading_;
  Step& step_;
};

}  // namespace

void ReadJoins(Numbered* numbered) { JoinReader(numbered).Read(); }

}  // namespace step
}  // namespace ascpipe
