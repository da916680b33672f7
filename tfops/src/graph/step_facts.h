// Properties of the graph of a step that must be equal on all ranks: updates of tables, and collectives of the program.
#ifndef ASCPIPE_GRAPH_STEP_FACTS_H_
#define ASCPIPE_GRAPH_STEP_FACTS_H_

#include <string>

#include "bridge/pipeline.h"
#include "graph/step_graph.h"

namespace ascpipe {

// Returns the properties of a graph that must be equal on all ranks, one per line (see peers/likeness.h). ascpipe must
// not have changed the graph yet. The properties are:
// - the formula and parameters of each update of a table;
// - the combiners of trained lookups;
// - the Horovod ops in which all ranks take part;
// - the type, shape, formula and parameters of each dense variable that is updated by the result of a Horovod op.
// Variables and ops that the list does not mention may differ. For example, each rank may have different summaries,
// towers and inputs.
std::string FactsOf(const tensorflow::Graph& graph, const Pipeline& pipeline);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_FACTS_H_
