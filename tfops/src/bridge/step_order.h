// What comes first within one step: the ops that read rows, then those that move or update them.
#ifndef ASCPIPE_BRIDGE_STEP_ORDER_H_
#define ASCPIPE_BRIDGE_STEP_ORDER_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Adds control edges to the graph of one step, what one call of session.run has asked for.  Evaluation lookups come
// before every op that moves rows or gives up a share of the lease (training plans, cuts, resets), so that they read
// the state before the step.  One that already waits for such an op has its plan come after that op, too: its rows stay
// where the plan says to the end of the step, which has the lease alone by then.  Lookups and AscReadRows come before the
// updates of what they read, unless the program has it the other way round.
//
// A graph without an evaluation beside training gets no edge, as its updates depend on its lookups.
tensorflow::Status OrderStep(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_ORDER_H_
