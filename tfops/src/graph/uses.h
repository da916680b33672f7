// What reads the outputs of an op in the end, through ops that pass them on or ask for their shapes.
#ifndef ASCPIPE_GRAPH_USES_H_
#define ASCPIPE_GRAPH_USES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/step_graph.h"
#include "step/step.h"

namespace ascpipe {
namespace step {

// The ops of a step at which a search ends, with their numbers in it.
struct Ends {
  std::map<const tensorflow::Node*, int> joins, bags, sums, cuts;
};

class UseSearch {
 public:
  UseSearch(const Ends& ends, std::vector<std::string>* readers) : ends_(ends), readers_(*readers) {}

  // If one use is kOther, it is the only one.  is_waited_for: whether what waits for the op is a use as well.
  Uses Of(const Port& port, bool is_waited_for = false);
  Uses OfAll(tensorflow::Node* node);  // of all its outputs

 private:
  Uses Along(const tensorflow::Edge& edge);
  Uses ThroughGradientOfRows(const tensorflow::Edge& edge);
  Uses Other(const tensorflow::Node& reader);
  static void Add(Uses* all, const Uses& more);

  const Ends& ends_;
  std::vector<std::string>& readers_;
  std::map<const tensorflow::Node*, std::vector<Uses>> known_;  // by output
  std::set<const tensorflow::Node*> begun_;
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_USES_H_
