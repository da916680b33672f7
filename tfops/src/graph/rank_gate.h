// The gate of a step of several ranks: nothing of the step sees its batch before all ranks have one.
#ifndef ASCPIPE_GRAPH_RANK_GATE_H_
#define ASCPIPE_GRAPH_RANK_GATE_H_

#include "graph/step_graph.h"

namespace ascpipe {

struct GatedStep {
  int stream;
  bool training;
  tensorflow::int64 used;  // a number for its tables, equal on ranks that use the same ones
};

// Puts AscGate between IteratorGetNext, where `ticket` comes from, and all that uses it; then `ticket` comes from the
// gate.  `owned`: the ticket of what all ranks ask of this one.
tensorflow::Status PutGate(tensorflow::Graph* graph, const GatedStep& step, Port* ticket, Port* owned);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_RANK_GATE_H_
