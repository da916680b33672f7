// What follows the sums of several ranks in the graph of a step.
#ifndef ASCPIPE_GRAPH_RANK_SUMS_H_
#define ASCPIPE_GRAPH_RANK_SUMS_H_

#include "graph/step_graph.h"

namespace ascpipe {

// Adds the division of a sum's values by the number of ranks.
tensorflow::Status PutAverage(tensorflow::Graph* graph, int ranks, tensorflow::Node* sum, tensorflow::Node** average);

// Adds AscApplied behind all that comes after `backward`.  A step that fails before all that reads its gradients has
// run leaves tables half-way, and the other ranks must be told.
tensorflow::Status PutApplied(tensorflow::Graph* graph, tensorflow::Node* backward);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_RANK_SUMS_H_
