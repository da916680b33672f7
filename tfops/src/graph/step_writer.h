// Changes the graph of a step so that it does what a layout says.
#ifndef ASCPIPE_GRAPH_STEP_WRITER_H_
#define ASCPIPE_GRAPH_STEP_WRITER_H_

#include "graph/step_reader.h"

namespace ascpipe {
namespace step {

// What the layout does not name stays as it is, and so does what anything else in the graph still needs.
tensorflow::Status WriteStep(const Layout& layout, const Reading& reading, tensorflow::Graph* graph);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_WRITER_H_
