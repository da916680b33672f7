// Several ranks: what a program's own Horovod ops must not do with the gradient of a table.
#ifndef ASCPIPE_GRAPH_GATHERED_ROWS_H_
#define ASCPIPE_GRAPH_GATHERED_ROWS_H_

#include "graph/step_graph.h"

namespace ascpipe {

// Refuses a Horovod op that gets the numbers of rows of an AscLookupGrad, as hvd.DistributedOptimizer lets it: they
// mean nothing on other ranks.
tensorflow::Status RefuseGathered(const tensorflow::Node& sum);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_GATHERED_ROWS_H_
