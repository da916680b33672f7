// Changes datasets that parse records one by one and then batch the parsed records. The changed datasets first batch
// the records.
#ifndef ASCPIPE_GRAPH_BATCH_FIRST_H_
#define ASCPIPE_GRAPH_BATCH_FIRST_H_

#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Changes the datasets of one graph. The changed datasets return the same batches as the original datasets, bit for
// bit. Sets `*changed` to true if a dataset was changed, otherwise to false. Logs the datasets that still parse records
// one by one, with the reason.
tensorflow::Status BatchFirst(tensorflow::Graph* graph, tensorflow::FunctionLibraryDefinition* library, bool* changed);

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_BATCH_FIRST_H_
