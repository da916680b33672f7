#include "graph/new_ops.h"

#include <algorithm>

namespace ascpipe {
namespace step {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

bool IsSame(const NodeBuilder::NodeOut& out, const Port& port) {
  return out.node == port.node && out.index == port.index;
}

// Returns the index of a port in `outs`. Appends the port to `outs` if it is missing. Returns -1 for a port without a
// node.
int PlaceIn(const Port& port, Outs* outs) {
  if (port.node == nullptr) return -1;
  const auto found =
      std::find_if(outs->begin(), outs->end(), [&port](const NodeBuilder::NodeOut& out) { return IsSame(out, port); });
  const int place = static_cast<int>(found - outs->begin());
  if (found == outs->end()) outs->push_back(port.out());
  return place;
}

}  // namespace

void BagInputs::Add(const BagPorts& of) {
  bags.push_back(PlaceIn(of.splits, &splits));
  weighted.push_back(PlaceIn(of.weights, &weights));
  combiners.push_back(of.combiner);
  max_norms.push_back(of.max_norm);
}

void BagInputs::AddTo(NodeBuilder* builder) const {
  builder->Input(splits).Input(weights).Attr("bags", bags).Attr("weighted", weighted);
  builder->Attr("combiners", combiners).Attr("max_norms", max_norms);
}

void ReadOp::AddFeature(const Port& rows, const Port& slots, const Port& default_row, int table, const Port& restore) {
  std::size_t source = 0;
  while (source < rows_.size() && !(IsSame(rows_[source], rows) && IsSame(slots_[source], slots) &&
                                    IsSame(default_row_[source], default_row) && tables_[source] == table)) {
    ++source;
  }
  if (source == rows_.size()) {
    rows_.push_back(rows.out());
    slots_.push_back(slots.out());
    default_row_.push_back(default_row.out());
    tables_.push_back(table);
  }
  order_.push_back(static_cast<int>(sources_.size()));
  sources_.push_back(static_cast<int>(source));
  restore_.push_back(restore.out());
  ++pieces_.back();
}

void ReadOp::AddOther(const Port& port) {
  others_.push_back(port.out());
  order_.push_back(-static_cast<int>(others_.size()));
  ++pieces_.back();
}

Status ReadOp::AddTo(Graph* graph, const Nodes& waits, const Node& beside, Node** node) const {
  Integers order = order_;
  for (int& piece : order) {
    if (piece < 0) piece = static_cast<int>(restore_.size()) - 1 - piece;
  }
  NodeBuilder builder(graph->NewName("ascpipe/read"), "AscRead", graph->op_registry());
  builder.Input(rows_).Input(slots_).Input(default_row_).Input(restore_);
  bags_.AddTo(&builder);
  builder.Input(others_).Attr("o", static_cast<int>(pieces_.size())).Attr("tables", tables_);
  builder.Attr("sources", sources_).Attr("order", order).Attr("pieces", pieces_);
  return Place(graph, &builder, waits, beside, node);
}

void SumOp::AddTable(const Port& rows, const Port& slots, int dim, bool partial) {
  rows_of_.push_back(PlaceIn(rows, &rows_));
  slots_.push_back(slots.out());
  dims_.push_back(dim);
  partial_.push_back(partial);
}

void SumOp::AddFeature(const Port& restore, const Port& gradient, int column, const BagPorts& bags) {
  tables_.push_back(static_cast<int>(slots_.size()) - 1);
  restore_.push_back(restore.out());
  sources_.push_back(PlaceIn(gradient, &gradients_));
  columns_.push_back(column);
  bags_.Add(bags);
}

Status SumOp::AddTo(Graph* graph, const Nodes& waits, const Node& beside, Node** node) const {
  NodeBuilder builder(graph->NewName("ascpipe/sum"), "AscSum", graph->op_registry());
  builder.Input(rows_).Input(slots_).Input(restore_).Input(gradients_);
  bags_.AddTo(&builder);
  builder.Attr("dims", dims_).Attr("partial", partial_).Attr("rows_of", rows_of_).Attr("tables", tables_);
  builder.Attr("sources", sources_).Attr("columns", columns_);
  return Place(graph, &builder, waits, beside, node);
}

}  // namespace step
}  // namespace ascpipe
