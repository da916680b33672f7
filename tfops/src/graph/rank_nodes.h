// Builders of the nodes that the exchange between ranks adds to the graph of a step. Some of the added nodes replace
// nodes of the program.
#ifndef ASCPIPE_GRAPH_RANK_NODES_H_
#define ASCPIPE_GRAPH_RANK_NODES_H_

#include <string>

#include "bridge/status.h"
#include "graph/step_graph.h"

namespace ascpipe {

// Returns a builder for a stateful op that replaces `stands_for`. The name of the op must not depend on the fetches,
// because a session caches the kernels of stateful ops by name.
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

// A step that starts when all ranks have a batch.
struct GatedStep {
  int stream;
  bool training;
  tensorflow::int64 used;  // hash of the step's tables; equal on ranks that use the same tables
};

// Inserts AscGate after IteratorGetNext, which is the op that produces *ticket. All readers of IteratorGetNext read the
// outputs of AscGate instead. *ticket is set to the output of AscGate that contains the ticket. *owned receives the
// ticket of the keys that all ranks request from this rank.
tensorflow::Status PutGate(tensorflow::Graph* graph, const GatedStep& step, Port* ticket, Port* owned);

// Replaces an AscLookup by an AscRestoreRows op, which reads rows that AscForward has received. After the replacement,
// no op reads the AscLookup. `local` is the output of AscForward that contains the rows of the lookup's table. The
// `slots` input of the lookup must contain positions in `local`.
tensorflow::Status ReadWhatCame(tensorflow::Graph* graph, tensorflow::Node* lookup, const Port& local);

// Adds an op that divides the values of a sum by the number of ranks.
tensorflow::Status PutAverage(tensorflow::Graph* graph, int ranks, tensorflow::Node* sum, tensorflow::Node** average);

// Adds an AscApplied op that runs after all nodes that depend on `backward`. If a step fails before AscApplied, some
// tables may lack updates of the step, and the other ranks must be notified.
tensorflow::Status PutApplied(tensorflow::Graph* graph, tensorflow::Node* backward);

// Returns an error if a Horovod op reads the row numbers of an AscLookupGrad, because row numbers have no meaning on
// other ranks. For example, hvd.DistributedOptimizer adds Horovod ops.
tensorflow::Status RefuseGathered(const tensorflow::Node& sum);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_RANK_NODES_H_
