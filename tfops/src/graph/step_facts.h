// Properties of the graph of a step that must be equal on all ranks: updates of tables, and collectives of the program.
#ifndef ASCPIPE_GRAPH_STEP_FACTS_H_
#define ASCPIPE_GRAPH_STEP_FACTS_H_

#include <string>

#include "bridge/pipeline.h"
#include "graph/step_graph.h"

namespace ascpipe {

// Returns the properties of the graph as the program wrote it, as lines for peers/likeness.h:
// - the formula and parameters of each update of a table;
// - combiners whose gradients are trained;
// - Horovod ops in which all ranks take part;
// - type, shape, formula and parameters of each dense variable that is updated by the result of such an op.
// Other variables and ops that do not train may differ. For example, each rank may have different summaries, towers and
// inputs.
std::string FactsOf(const tensorflow::Graph& graph, const Pipeline& pipeline);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_FACTS_H_
