#include "graph/new_ops.h"

#include <algorithm>

namespace ascpipe {
namespace step {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

using Integers = std::vector<int>;
using Outs = std::vector<NodeBuilder::NodeOut>;

// The place of a port among others, -1 for none; it is added where it is not among them.
int PlaceIn(const Port& port, std::vector<Port>* ports) {
  if (port.node == nullptr) return -1;
  const auto found = std::find(ports->begin(), ports->end(), port);
  const int place = static_cast<int>(found - ports->begin());
  if (found == ports->end()) ports->push_back(port);
  return place;
}

Outs OutsOf(const std::vector<Port>& ports) {
  Outs outs;
  for (const Port& port : ports) outs.push_back(port.out());
  return outs;
}

// The inputs and attributes of bags, by feature.
class BagsOf {
 public:
  template <typename Feature>
  explicit BagsOf(const std::vector<Feature>& features) {
    for (const Feature& feature : features) {
      bags_.push_back(PlaceIn(feature.bags.splits, &splits_));
      weighted_.push_back(PlaceIn(feature.bags.weights, &weights_));
      combiners_.push_back(feature.bags.combiner);
      max_norms_.push_back(feature.bags.max_norm);
    }
  }

  void AddTo(NodeBuilder* builder) const {
    builder->Input(OutsOf(splits_)).Input(OutsOf(weights_)).Attr("bags", bags_).Attr("weighted", weighted_);
    builder->Attr("combiners", combiners_).Attr("max_norms", max_norms_);
  }

 private:
  std::vector<Port> splits_, weights_;
  Integers bags_, weighted_;
  std::vector<std::string> combiners_;
  std::vector<float> max_norms_;
};

}  // namespace

int ReadOp::AddSource(const Source& source) {
  const auto same = [&source](const Source& each) {
    return each.rows == source.rows && each.slots == source.slots && each.default_row == source.default_row &&
           each.table == source.table;
  };
  const auto found = std::find_if(sources.begin(), sources.end(), same);
  const int number = static_cast<int>(found - sources.begin());
  if (found == sources.end()) sources.push_back(source);
  return number;
}

int ReadOp::AddOther(const Port& port) {
  others.push_back(port);
  return -static_cast<int>(others.size());
}

Status Add(const ReadOp& read, const Nodes& waits, const Node& beside, Graph* graph, Node** node) {
  Outs rows, slots, default_row, restore;
  Integers tables, sources, order, pieces;
  for (const ReadOp::Source& source : read.sources) {
    rows.push_back(source.rows.out());
    slots.push_back(source.slots.out());
    default_row.push_back(source.default_row.out());
    tables.push_back(source.table);
  }
  for (const ReadOp::Feature& feature : read.features) {
    sources.push_back(feature.source);
    restore.push_back(feature.restore.out());
  }
  const int features = static_cast<int>(read.features.size());
  for (const ReadOp::Pieces& output : read.outputs) {
    pieces.push_back(static_cast<int>(output.size()));
    for (const int piece : output) order.push_back(piece >= 0 ? piece : features - 1 - piece);
  }
  NodeBuilder builder(graph->NewName("ascpipe/read"), "AscRead", graph->op_registry());
  builder.Input(rows).Input(slots).Input(default_row).Input(restore);
  BagsOf(read.features).AddTo(&builder);
  builder.Input(OutsOf(read.others)).Attr("o", static_cast<int>(pieces.size()));
  builder.Attr("tables", tables).Attr("sources", sources).Attr("order", order).Attr("pieces", pieces);
  return Place(graph, &builder, waits, beside, node);
}

Status Add(const SumOp& sum, const Nodes& waits, const Node& beside, Graph* graph, Node** node) {
  Outs slots, restore;
  std::vector<Port> rows, gradients;
  Integers dims, rows_of, tables, sources, columns;
  std::vector<bool> partial;
  for (const SumOp::Table& table : sum.tables) {
    rows_of.push_back(PlaceIn(table.rows, &rows));
    slots.push_back(table.slots.out());
    dims.push_back(table.dim);
    partial.push_back(table.partial);
  }
  for (const SumOp::Feature& feature : sum.features) {
    tables.push_back(feature.table);
    restore.push_back(feature.restore.out());
    sources.push_back(PlaceIn(feature.gradient, &gradients));
    columns.push_back(feature.column);
  }
  NodeBuilder builder(graph->NewName("ascpipe/sum"), "AscSum", graph->op_registry());
  builder.Input(OutsOf(rows)).Input(slots).Input(restore).Input(OutsOf(gradients));
  BagsOf(sum.features).AddTo(&builder);
  builder.Attr("dims", dims).Attr("partial", partial).Attr("rows_of", rows_of).Attr("tables", tables);
  builder.Attr("sources", sources).Attr("columns", columns);
  return Place(graph, &builder, waits, beside, node);
}

}  // namespace step
}  // namespace ascpipe
