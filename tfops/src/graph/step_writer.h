// Changes the graph of a step according to the layout of the step.
#ifndef ASCPIPE_GRAPH_STEP_WRITER_H_
#define ASCPIPE_GRAPH_STEP_WRITER_H_

#include "graph/step_reader.h"

namespace ascpipe {
namespace step {

// Applies the layout. Ops that are not in the layout stay unchanged. Replaced ops are removed unless other nodes still
// read their outputs.
tensorflow::Status WriteStep(const Layout& layout, const Reading& reading, tensorflow::Graph* graph);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_WRITER_H_
