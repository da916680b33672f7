// Order within one step: ops that read rows come before ops that move or update them.
#ifndef ASCPIPE_BRIDGE_STEP_ORDER_H_
#define ASCPIPE_BRIDGE_STEP_ORDER_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Adds control edges to the graph of one step (the fetches of one session.run).  Evaluation lookups come before every
// op that moves rows or gives up a share of the lease (training plans, cuts, resets), so that they read the state
// before the step.  If a lookup already waits for such an op, its plan comes after that op, too: its rows then stay
// where the plan says until the end of the step, which has the lease alone.  Lookups and AscReadRows come before the
// updates of what they read, unless the program orders them the other way round.
//
// A graph without an evaluation beside training gets no edge, as its updates depend on its lookups.
tensorflow::Status OrderStep(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_ORDER_H_
