// Changes the graph of a step as its layout describes.
#ifndef ASCPIPE_GRAPH_STEP_WRITER_H_
#define ASCPIPE_GRAPH_STEP_WRITER_H_

#include "graph/step_reader.h"

namespace ascpipe {
namespace step {

// Applies the layout. Ops that the layout does not name stay unchanged. Ops that other nodes still read also stay
// unchanged.
tensorflow::Status WriteStep(const Layout& layout, const Reading& reading, tensorflow::Graph* graph);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_WRITER_H_
