// Which op has replaced which, while the graph of a step is written.
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

  // What is now where the program's op or output was.
  tensorflow::Node* OpOf(Item item) const;
  Port PortOf(Value value) const;  // no node for -1
  void AddWaits(const Nodes& waits, Nodes* all) const;

  // Repoint, of a node that is replaced.
  tensorflow::Status Replace(tensorflow::Node* node, const std::vector<Port>& outputs, tensorflow::Node* waited_for);

  // Says which op does what that of an item did.
  void Write(Item item, tensorflow::Node* node) { written_[item] = node; }

  // What was replaced and has no reader left, and the ops without an effect of their own that only such ops read.
  NodeSet Unread() const;
  void RemoveUnread();

 private:
  const Reading& reading_;
  tensorflow::Graph& graph_;
  std::map<Item, tensorflow::Node*> written_;
  std::map<std::pair<tensorflow::Node*, int>, Port> moved_;  // outputs
  std::map<tensorflow::Node*, tensorflow::Node*> replaced_;  // with what is waited for in their place
};

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_REWIRING_H_
