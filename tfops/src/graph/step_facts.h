// Facts of the graph of a step that must be alike on all ranks: updates of tables, and the program's collectives.
#ifndef ASCPIPE_GRAPH_STEP_FACTS_H_
#define ASCPIPE_GRAPH_STEP_FACTS_H_

#include <string>

#include "bridge/pipeline.h"
#include "graph/step_graph.h"

namespace ascpipe {

// Lines of peers/likeness.h about the graph of a step as the program wrote it:
// - of each update of a table, its formula and numbers;
// - combiners whose gradients are trained;
// - ops of Horovod's over all ranks;
// - of each variable of the dense model that is updated by what such an op gives: type, shape, formula and numbers.
// Other variables, and ops that train nothing, may differ: ranks may have summaries, towers and inputs of their own.
std::string FactsOf(const tensorflow::Graph& graph, const Pipeline& pipeline);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_FACTS_H_
