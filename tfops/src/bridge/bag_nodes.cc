#include "bridge/bag_nodes.h"

#include <algorithm>

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

using Integers = std::vector<int>;
using Outs = std::vector<NodeBuilder::NodeOut>;

template <typename Value>
Status Read(const Node& node, const char* attr, std::vector<Value>* values) {
  values->clear();  // GetNodeAttr adds to what is there
  return tensorflow::GetNodeAttr(node.attrs(), attr, values);
}

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

Port SourceOrNone(const Node& node, int first, int which) { return which < 0 ? Port() : Source(&node, first + which); }

}  // namespace

bool IsCombineOfTable(const Node& node) { return node.type_string() == "AscRead" && IntOf(&node, "b") > 0; }

Status AddCombine(const Node& node, CombineNode* combine) {
  const int n = IntOf(&node, "n"), k = IntOf(&node, "k"), restore = 3 * n, splits = restore + k;
  const int weights = splits + IntOf(&node, "b"), others = weights + IntOf(&node, "w");
  Integers tables, sources, bags, weighted, order, pieces;
  std::vector<std::string> combiners;
  std::vector<float> max_norms;
  TF_RETURN_IF_ERROR(Read(node, "tables", &tables));
  TF_RETURN_IF_ERROR(Read(node, "sources", &sources));
  TF_RETURN_IF_ERROR(Read(node, "bags", &bags));
  TF_RETURN_IF_ERROR(Read(node, "weighted", &weighted));
  TF_RETURN_IF_ERROR(Read(node, "order", &order));
  TF_RETURN_IF_ERROR(Read(node, "pieces", &pieces));
  TF_RETURN_IF_ERROR(Read(node, "combiners", &combiners));
  TF_RETURN_IF_ERROR(Read(node, "max_norms", &max_norms));
  const int features_before = static_cast<int>(combine->features.size());
  const int others_before = static_cast<int>(combine->others.size());
  // Numbers of others come after those of features: they move by as many as there are more of these.
  for (auto& output : combine->outputs) {
    for (int& which : output) which += which < features_before ? 0 : k;
  }
  for (int i = 0; i < k; ++i) {
    const std::size_t place = static_cast<std::size_t>(i);
    const int source = sources[place];
    combine->features.push_back({Source(&node, source), Source(&node, n + source), Source(&node, restore + i),
                                 Source(&node, 2 * n + source), SourceOrNone(node, splits, bags[place]),
                                 SourceOrNone(node, weights, weighted[place]), combiners[place], max_norms[place],
                                 tables[static_cast<std::size_t>(source)]});
  }
  for (int i = 0; i < IntOf(&node, "m"); ++i) combine->others.push_back(Source(&node, others + i));
  auto which = order.begin();
  for (const int count : pieces) {
    combine->outputs.emplace_back();
    for (int i = 0; i < count; ++i, ++which) {
      combine->outputs.back().push_back(features_before + *which + (*which < k ? 0 : others_before));
    }
  }
  return Status::OK();
}

Status PlaceCombine(Graph* graph, const char* name, const CombineNode& combine, const Nodes& after, const Node& beside,
                    Node** node) {
  Outs rows, slots, restore, default_row;
  std::vector<Port> splits, weights;
  Integers tables, sources, bags, weighted, order, pieces;
  std::vector<std::string> combiners;
  std::vector<float> max_norms;
  std::vector<const CombineNode::Feature*> known;  // by source
  for (const CombineNode::Feature& feature : combine.features) {
    const auto found = std::find_if(known.begin(), known.end(), [&feature](const CombineNode::Feature* other) {
      return other->rows == feature.rows && other->slots == feature.slots && other->table == feature.table &&
             other->default_row == feature.default_row;
    });
    sources.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) {
      known.push_back(&feature);
      rows.push_back(feature.rows.out());
      slots.push_back(feature.slots.out());
      default_row.push_back(feature.default_row.out());
      tables.push_back(feature.table);
    }
    restore.push_back(feature.restore.out());
    bags.push_back(PlaceIn(feature.splits, &splits));
    weighted.push_back(PlaceIn(feature.weights, &weights));
    combiners.push_back(feature.combiner);
    max_norms.push_back(feature.max_norm);
  }
  for (const auto& output : combine.outputs) {
    pieces.push_back(static_cast<int>(output.size()));
    order.insert(order.end(), output.begin(), output.end());
  }
  NodeBuilder builder(graph->NewName(name), "AscRead", graph->op_registry());
  builder.Input(rows).Input(slots).Input(default_row).Input(restore).Input(OutsOf(splits)).Input(OutsOf(weights));
  builder.Input(OutsOf(combine.others)).Attr("o", static_cast<int>(pieces.size()));
  builder.Attr("tables", tables).Attr("sources", sources).Attr("bags", bags).Attr("weighted", weighted);
  builder.Attr("combiners", combiners).Attr("max_norms", max_norms).Attr("order", order).Attr("pieces", pieces);
  return Place(graph, &builder, after, beside, node);
}

bool IsSumOfBags(const Node& node) { return node.type_string() == "AscSum" && IntOf(&node, "b") > 0; }

Status AddSum(const Node& node, SumNode* sum) {
  const int before = static_cast<int>(sum->tables.size()), k = IntOf(&node, "k");
  if (node.type_string() == "AscLookupGrad") {
    sum->tables.push_back({Port(), Source(&node, 0), IntOf(&node, "dim"), IsTrue(node, "partial")});
    for (int i = 0; i < k; ++i) {
      sum->features.push_back({before, Source(&node, 1 + i), Source(&node, 1 + k + i), -1, Port(), Port(), "", 0});
    }
    return Status::OK();
  }
  Integers dims, rows_of, tables, columns, sources, bags, weighted;
  std::vector<bool> partial;
  std::vector<std::string> combiners;
  std::vector<float> max_norms;
  TF_RETURN_IF_ERROR(Read(node, "dims", &dims));
  TF_RETURN_IF_ERROR(Read(node, "partial", &partial));
  TF_RETURN_IF_ERROR(Read(node, "rows_of", &rows_of));
  TF_RETURN_IF_ERROR(Read(node, "tables", &tables));
  TF_RETURN_IF_ERROR(Read(node, "sources", &sources));
  TF_RETURN_IF_ERROR(Read(node, "columns", &columns));
  TF_RETURN_IF_ERROR(Read(node, "bags", &bags));
  TF_RETURN_IF_ERROR(Read(node, "weighted", &weighted));
  TF_RETURN_IF_ERROR(Read(node, "combiners", &combiners));
  TF_RETURN_IF_ERROR(Read(node, "max_norms", &max_norms));
  const int r = IntOf(&node, "r"), n = IntOf(&node, "n"), restores = r + n, grads = restores + k;
  const int splits = grads + IntOf(&node, "g"), weights = splits + IntOf(&node, "b");
  for (int i = 0; i < n; ++i) {
    const std::size_t place = static_cast<std::size_t>(i);
    sum->tables.push_back({SourceOrNone(node, 0, rows_of[place]), Source(&node, r + i), dims[place], partial[place]});
  }
  for (int i = 0; i < k; ++i) {
    const std::size_t place = static_cast<std::size_t>(i);
    sum->features.push_back({before + tables[place], Source(&node, restores + i), Source(&node, grads + sources[place]),
                             columns[place], SourceOrNone(node, splits, bags[place]),
                             SourceOrNone(node, weights, weighted[place]), combiners[place], max_norms[place]});
  }
  return Status::OK();
}

Status PlaceSum(Graph* graph, const SumNode& sum, const Nodes& after, const Node& beside, Node** node) {
  Outs slots, restore;
  std::vector<Port> rows, grads, splits, weights;
  Integers dims, rows_of, tables, sources, columns, bags, weighted;
  std::vector<bool> partial;
  std::vector<std::string> combiners;
  std::vector<float> max_norms;
  for (const SumNode::Table& table : sum.tables) {
    rows_of.push_back(PlaceIn(table.rows, &rows));
    slots.push_back(table.slots.out());
    dims.push_back(table.dim);
    partial.push_back(table.partial);
  }
  for (const SumNode::Feature& feature : sum.features) {
    tables.push_back(feature.table);
    restore.push_back(feature.restore.out());
    sources.push_back(PlaceIn(feature.grads, &grads));
    columns.push_back(feature.column);
    bags.push_back(PlaceIn(feature.splits, &splits));
    weighted.push_back(PlaceIn(feature.weights, &weights));
    combiners.push_back(feature.combiner);
    max_norms.push_back(feature.max_norm);
  }
  const char* const name = splits.empty() ? "ascpipe/sum_together" : "ascpipe/sum_bags_together";
  NodeBuilder builder(graph->NewName(name), "AscSum", graph->op_registry());
  builder.Input(OutsOf(rows)).Input(slots).Input(restore).Input(OutsOf(grads)).Input(OutsOf(splits));
  builder.Input(OutsOf(weights)).Attr("dims", dims).Attr("partial", partial).Attr("rows_of", rows_of);
  builder.Attr("tables", tables).Attr("sources", sources).Attr("columns", columns).Attr("bags", bags);
  builder.Attr("weighted", weighted).Attr("combiners", combiners).Attr("max_norms", max_norms);
  return Place(graph, &builder, after, beside, node);
}

}  // namespace ascpipe
