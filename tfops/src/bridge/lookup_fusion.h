// Fusion within one step: lookups that a concat joins become one op, and so do their gradients.
#ifndef ASCPIPE_BRIDGE_LOOKUP_FUSION_H_
#define ASCPIPE_BRIDGE_LOOKUP_FUSION_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Changes the graph of one step (the fetches of one session.run), which then gives the same bits with less work.
//
// A concat of columns of lookups (AscLookup) and other columns becomes AscLookupConcat, where nothing else in the step
// reads the lookups: no tensor for each lookup is written and copied.  Gradients of these lookups (AscLookupGrad) that
// are columns of one tensor become one AscLookupConcatGrad, which reads the columns where they are.  With several ranks
// lookups read what AscForward brings: AscRestoreRows of it becomes AscRestoreRowsConcat.  What is not recognised stays
// as it is.  A fetch of a lookup alone is another step, with a graph of its own.
tensorflow::Status FuseLookups(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_LOOKUP_FUSION_H_
