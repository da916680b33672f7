// The changes of the graph of a step, the fetches of one session.run.  `step_pass.cc` makes them one after the other.
//
// Each leaves what it does not recognise as it is, and gives the same bits.
#ifndef ASCPIPE_BRIDGE_STEP_PASS_H_
#define ASCPIPE_BRIDGE_STEP_PASS_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// With several ranks, lookups read what owners of keys send, and updates what all ranks send them.
tensorflow::Status ExchangeAmongRanks(tensorflow::Graph* graph);

// Lookups of bags become one op with their combination, forwards and backwards: no tensor has a row for each id.
tensorflow::Status FuseCombines(tensorflow::Graph* graph);

// A concat of columns of lookups (AscLookup) and other columns becomes AscLookupConcat, where nothing else in the step
// reads the lookups: no tensor for each lookup is written and copied.  Gradients of these lookups (AscLookupGrad) that
// are columns of one tensor become one AscLookupConcatGrad, which reads the columns where they are.  With several ranks
// lookups read what AscForward brings: AscRestoreRows of it becomes AscRestoreRowsConcat.  A fetch of a lookup alone is
// another step, with a graph of its own.
tensorflow::Status FuseLookups(tensorflow::Graph* graph);

// Combinations of several tables become one op.
tensorflow::Status CombineTablesTogether(tensorflow::Graph* graph);

// Plans of several tables become one op, and updates by one formula.
tensorflow::Status FuseTables(tensorflow::Graph* graph);

// Adds control edges.  Evaluation lookups come before every op that moves rows or gives up a share of the lease
// (training plans, cuts, resets), so that they read the state before the step.  If a lookup already waits for such an
// op, its plan comes after that op, too: its rows then stay where the plan says until the end of the step, which has
// the lease alone.  Lookups and AscReadRows come before the updates of what they read, unless the program orders them
// the other way round.  A graph without an evaluation beside training gets no edge, as its updates depend on its
// lookups.
tensorflow::Status OrderStep(tensorflow::Graph* graph);

// In a session that asks for it: variables are read before they are updated.
tensorflow::Status OrderVariables(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_PASS_H_
