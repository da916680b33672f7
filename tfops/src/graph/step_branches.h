// Which conditionals of a step decide whether a node runs.
#ifndef ASCPIPE_GRAPH_STEP_BRANCHES_H_
#define ASCPIPE_GRAPH_STEP_BRANCHES_H_

#include <cstddef>
#include <vector>

#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// What reads or waits for a branch that is not taken does not run either, up to the Merge where branches meet again.
// Nodes of the same branch run all or none, so that one op may take the place of several.
class Branches {
 public:
  tensorflow::Status Read(tensorflow::Graph* graph);

  // A number that nodes of the same branches have in common; 0: of none.  -1: the node is within a loop, or newer than
  // this.
  int Of(const tensorflow::Node& node) const {
    const std::size_t id = static_cast<std::size_t>(node.id());
    return id < numbers_.size() ? numbers_[id] : -1;
  }

 private:
  std::vector<int> numbers_;  // by node
};

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_STEP_BRANCHES_H_
