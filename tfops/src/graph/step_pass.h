// Rewrites of the graph of a step. The graph of a step contains the fetches of one session.run and their predecessors.
// `step_pass.cc` applies the rewrites.
//
// A rewrite does not modify ops that it does not recognize.
#ifndef ASCPIPE_GRAPH_STEP_PASS_H_
#define ASCPIPE_GRAPH_STEP_PASS_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Inserts the exchanges of several ranks. After ExchangeAmongRanks, lookups read rows that the owners of the keys sent,
// and updates read gradients that all ranks sent.
tensorflow::Status ExchangeAmongRanks(tensorflow::Graph* graph);

// Orders the ops of a deterministic session, so that readers of a variable run before the updates of the variable.
// Replaces AddN of three or more tensors by additions in a fixed order.
tensorflow::Status OrderVariables(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_PASS_H_
