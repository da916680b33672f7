// Replacements of ops and outputs while the graph of a step is changed.
#ifndef ASCPIPE_GRAPH_REWIRING_H_
#define ASCPIPE_GRAPH_REWIRING_H_

#include <map>
#include <utility>

#include "graph/step_reader.h"

namespace ascpipe {
namespace step {

class Rewiring {
 public:
  Rewiring(const Reading& reading, tensorflow::Graph* graph) : reading_(reading), graph_(*graph) {}

  // OpOf and PortOf return the replacement of an op or output of the program, or the op or output itself if it was not
  // replaced.
  tensorflow::Node* OpOf(Item item) const;
  Port PortOf(Value value) const;  // the returned port has no node if `value` is -1
  void AddWaits(const Nodes& waits, Nodes* all) const;

  // Makes the readers of `node` read `outputs` instead, and records that `node` is replaced.
  tensorflow::Status Replace(tensorflow::Node* node, const std::vector<Port>& outputs, tensorflow::Node* waited_for);

  // Records the op that replaces an item.
  void Write(Item item, tensorflow::Node* node) { written_[item] = node; }

  // Returns the replaced nodes that no longer have readers. Also returns an op without side effects if all readers of
  // its outputs are returned.
  NodeSet Unread() const;
  void RemoveUnread();

 private:
  const Reading& reading_;
  tensorflow::Graph& graph_;
  std::map<Item, tensorflow::Node*> written_;
  std::map<std::pair<tensorflow::Node*, int>, Port> moved_;  // replacements of outputs
  std::map<tensorflow::Node*, tensorflow::Node*>
      replaced_;  // replaced nodes, with the op that their successors now wait for
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_REWIRING_H_
