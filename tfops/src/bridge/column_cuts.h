// Columns of a tensor of gradients that stay as they are where others are read in place.
#ifndef ASCPIPE_BRIDGE_COLUMN_CUTS_H_
#define ASCPIPE_BRIDGE_COLUMN_CUTS_H_

#include "bridge/step_columns.h"
#include "bridge/step_graph.h"

namespace ascpipe {

// Lets gradients of columns be cut out of `whole` where they are known to lie, so that nothing asks for the shapes of the
// lookups beside them, and lets what waits for a cut wait for `whole`.  readers: what reads `whole`, and is in no loop.
// replaced: nodes that are to be removed, what only they read included; what is not needed after this is added.
tensorflow::Status CutColumns(tensorflow::Graph* graph, const Shapes& shapes, const Port& whole, const Nodes& readers,
                              Nodes* replaced);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_COLUMN_CUTS_H_
