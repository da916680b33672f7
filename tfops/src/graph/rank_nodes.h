// Nodes that stand in the graph of a step of several ranks beside the program's, or in the place of some of these.
#ifndef ASCPIPE_GRAPH_RANK_NODES_H_
#define ASCPIPE_GRAPH_RANK_NODES_H_

#include <string>

#include "bridge/status.h"
#include "graph/step_graph.h"

namespace ascpipe {

// A stateful op for one of the program's: a session caches its kernel by name, for all sets of fetches.
inline tensorflow::NodeBuilder NodeFor(const tensorflow::Graph& graph, const tensorflow::Node& stands_for,
                                       const char* type) {
  return tensorflow::NodeBuilder(stands_for.name() + "/ascpipe_ranks", type, graph.op_registry());
}

inline tensorflow::NodeBuilder NewNode(tensorflow::Graph* graph, const char* name, const char* type) {
  return tensorflow::NodeBuilder(graph->NewName(std::string("ascpipe/") + name), type, graph->op_registry());
}

inline tensorflow::Status NotBuiltForRanks(const tensorflow::Node& node, const char* what) {
  return Refuse(Code::kFailedPrecondition, "'", node.name(), "' (", node.type_string(), "): ", what,
                " cannot be trained by several ranks yet. Nothing was run; train it in one process");
}

// A step that begins when all ranks have a batch.
struct GatedStep {
  int stream;
  bool training;
  tensorflow::int64 used;  // a number for its tables, equal on ranks that use the same ones
};

// Puts AscGate between IteratorGetNext, where `ticket` comes from, and all that uses it; then `ticket` comes from the
// gate.  `owned`: the ticket of what all ranks ask of this one.
tensorflow::Status PutGate(tensorflow::Graph* graph, const GatedStep& step, Port* ticket, Port* owned);

// Puts an op that reads rows of AscForward in the place of an AscLookup, which is then unread; its slots are the places
// of its keys in them, or will be.  local: the rows of its table.
tensorflow::Status ReadWhatCame(tensorflow::Graph* graph, tensorflow::Node* lookup, const Port& local);

// Adds the division of a sum's values by the number of ranks.
tensorflow::Status PutAverage(tensorflow::Graph* graph, int ranks, tensorflow::Node* sum, tensorflow::Node** average);

// Adds AscApplied behind all that comes after `backward`.  A step that fails before all that reads its gradients has
// run leaves tables half-way, and the other ranks must be told.
tensorflow::Status PutApplied(tensorflow::Graph* graph, tensorflow::Node* backward);

// Refuses a Horovod op that gets the numbers of rows of an AscLookupGrad, as hvd.DistributedOptimizer lets it: they
// mean nothing on other ranks.
tensorflow::Status RefuseGathered(const tensorflow::Node& sum);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_RANK_NODES_H_
