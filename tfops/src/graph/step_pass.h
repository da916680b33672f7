// Changes of the graph of a step, which is the graph of the fetches of one session.run. `step_pass.cc` applies the
// changes.
//
// No change alters a bit of a result. Ops that a change does not recognise stay unchanged.
#ifndef ASCPIPE_GRAPH_STEP_PASS_H_
#define ASCPIPE_GRAPH_STEP_PASS_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Inserts the exchanges of several ranks. Lookups then read rows that the owners of the keys sent, and updates read
// gradients that all ranks sent.
tensorflow::Status ExchangeAmongRanks(tensorflow::Graph* graph);

// Orders the ops of a deterministic session, so that readers of a variable run before the updates of the variable.
tensorflow::Status OrderVariables(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_PASS_H_
