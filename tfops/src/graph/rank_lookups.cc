#include "graph/rank_lookups.h"

#include "graph/rank_nodes.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

Status ReadWhatCame(Graph* graph, Node* lookup, const Port& local) {
  const int k = IntOf(lookup, "k");
  std::vector<NodeBuilder::NodeOut> restore;
  std::vector<int> outputs;
  for (int i = 0; i < k; ++i) {
    restore.push_back(Source(lookup, 2 + i).out());
    outputs.push_back(i);
  }
  Nodes before;
  AddControlInputs(lookup, &before);
  NodeBuilder builder = NewNode(graph, "restore_rows", "AscRestoreRows");
  builder.Input(local.out()).Input(Source(lookup, 1).out()).Input(restore).Input(Source(lookup, 2 + k).out());
  Node* node;
  TF_RETURN_IF_ERROR(Place(graph, &builder, before, *lookup, &node));
  return Repoint(graph, lookup, node, outputs);
}

}  // namespace ascpipe
