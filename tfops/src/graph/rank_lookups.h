// The lookups of a step of several ranks.
#ifndef ASCPIPE_GRAPH_RANK_LOOKUPS_H_
#define ASCPIPE_GRAPH_RANK_LOOKUPS_H_

#include <vector>

#include "graph/step_graph.h"

namespace ascpipe {

// Puts an op that reads rows of AscForward in the place of an AscLookup, which is then unread; its slots are the places
// of its keys in them, or will be.  local: the rows of its table.
tensorflow::Status ReadWhatCame(tensorflow::Graph* graph, tensorflow::Node* lookup, const Port& local);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_RANK_LOOKUPS_H_
