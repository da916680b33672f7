// Changes of the graph of a step, which is the graph of the fetches of one session.run.  `step_pass.cc` applies them.
//
// No change alters a bit of a result.  A change leaves ops that it does not recognise as they are.
#ifndef ASCPIPE_BRIDGE_STEP_PASS_H_
#define ASCPIPE_BRIDGE_STEP_PASS_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Inserts the exchanges of several ranks.  Lookups then read rows that the owners of the keys sent, and updates read
// gradients that all ranks sent.
tensorflow::Status ExchangeAmongRanks(tensorflow::Graph* graph);

// Merges the lookup of bags and the combination of their rows into one op, and their gradient ops into another op.  No
// tensor with a row for each id is left.
tensorflow::Status FuseCombines(tensorflow::Graph* graph);

// A concat of columns of lookups (AscLookup) and other columns becomes AscRead if nothing else in the step
// reads the lookups: no tensor for each lookup is written and copied.  Gradients of these lookups (AscLookupGrad) that
// are columns of one tensor become one AscSum, which reads the columns where they are.  With several ranks
// lookups read what AscForward brings: AscRestoreRows of it becomes AscRead.  A fetch of a lookup alone is
// another step, with a graph of its own.
tensorflow::Status FuseLookups(tensorflow::Graph* graph);

// Merges the ops that combine bags of several tables into one op.
tensorflow::Status CombineTablesTogether(tensorflow::Graph* graph);

// Merges the plans of several tables into one op, and updates with the same formula into another.
tensorflow::Status FuseTables(tensorflow::Graph* graph);

// Adds control edges.  Evaluation lookups come before every op that moves rows or gives up a share of the lease
// (training plans, cuts, resets), so that they read the state before the step.  If a lookup already waits for such an
// op, its plan comes after that op, too: its rows then stay where the plan says until the end of the step, which has
// the lease alone.  Lookups and AscReadRows come before the updates of what they read, unless the program orders them
// the other way round.  A graph without an evaluation beside training gets no edge, as its updates depend on its
// lookups.
tensorflow::Status OrderStep(tensorflow::Graph* graph);

// Orders the ops of a deterministic session: readers of a variable come before its updates.
tensorflow::Status OrderVariables(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_STEP_PASS_H_
