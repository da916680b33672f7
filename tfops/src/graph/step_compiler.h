// The compiler of steps: reads the graph of a step, decides its layout, and writes it.
#ifndef ASCPIPE_GRAPH_STEP_COMPILER_H_
#define ASCPIPE_GRAPH_STEP_COMPILER_H_

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

tensorflow::Status CompileStep(tensorflow::Graph* graph);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_COMPILER_H_
