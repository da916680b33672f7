#include "bridge/rank_lookups.h"

#include "bridge/rank_nodes.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

Status ReadWhatCame(Graph* graph, Node* lookup, const std::vector<Port>& local) {
  const bool joins = lookup->type_string() == "AscLookupConcat";
  const int tables = static_cast<int>(local.size()), k = IntOf(lookup, "k");
  std::vector<NodeBuilder::NodeOut> rows, places, restore, others;  // others: of AscLookup the default row
  for (int i = 0; i < tables; ++i) {
    rows.push_back(local[static_cast<std::size_t>(i)].out());
    places.push_back(Source(lookup, tables + i).out());
  }
  for (int i = 2 * tables; i < lookup->num_inputs(); ++i) {
    (i < 2 * tables + k ? restore : others).push_back(Source(lookup, i).out());
  }
  Nodes before;
  AddControlInputs(lookup, &before);
  NodeBuilder builder = NewNode(graph, "restore_rows", joins ? "AscRestoreRowsConcat" : "AscRestoreRows");
  if (joins) {
    std::vector<int> sources, order;
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(lookup->attrs(), "sources", &sources));
    TF_RETURN_IF_ERROR(tensorflow::GetNodeAttr(lookup->attrs(), "order", &order));
    builder.Input(rows).Input(places).Input(restore).Input(others).Attr("sources", sources).Attr("order", order);
  } else {
    builder.Input(rows[0]).Input(places[0]).Input(restore).Input(others[0]);
  }
  Node* node;
  TF_RETURN_IF_ERROR(Place(graph, &builder, before, *lookup, &node));
  std::vector<int> outputs;
  for (int i = 0; i < lookup->num_outputs(); ++i) outputs.push_back(i);
  return Repoint(graph, lookup, node, outputs);
}

}  // namespace ascpipe
