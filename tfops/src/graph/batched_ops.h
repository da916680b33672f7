// Rules that convert an op on one element to an op on a batch of elements.
#ifndef ASCPIPE_GRAPH_BATCHED_OPS_H_
#define ASCPIPE_GRAPH_BATCHED_OPS_H_

#include <vector>

#include "graph/step_graph.h"

namespace ascpipe {

// A value in the function of a dataset map, which originally processes one element.
struct MapValue {
  enum class Kind {
    kOnce,     // The value is equal for all elements.
    kBatched,  // The op computes the values of a batch. The first dimension is the position in the batch.
    kSparse,   // The value is a part of the sparse tensors of a batch.
    kMapped,   // An op computes the value of one element.
  };

  Kind kind = Kind::kOnce;
  int rank = -1;  // number of dimensions of one element; -1: unknown

  bool once() const { return kind == Kind::kOnce; }
  bool batched() const { return kind == Kind::kBatched; }
};
using MapValues = std::vector<MapValue>;

class BatchedOps {
 public:
  // `batch` is a batched argument of the function whose graph is `body`.
  BatchedOps(tensorflow::Graph* body, const Port& batch) : body_(body), batch_(batch) {}

  // If a rule applies to `node`, changes `node` so that it computes a batch. The results have the same bits as the
  // results of the original op. Returns the number of dimensions of one element, which is equal for all outputs. If no
  // rule applies, returns -1 and does not change the node.
  int Batch(tensorflow::Node* node, const MapValues& inputs);

  const tensorflow::Status& status() const { return status_; }

 private:
  using Rule = int (BatchedOps::*)(tensorflow::Node*, const MapValues&);
  static Rule RuleOf(const tensorflow::Node& node);

  int Unary(tensorflow::Node* node, const MapValues& inputs);
  int UnaryIntegers(tensorflow::Node* node, const MapValues& inputs);
  int AddsDimension(tensorflow::Node* node, const MapValues& inputs);
  int Broadcast(tensorflow::Node* node, const MapValues& inputs);
  int BroadcastIntegers(tensorflow::Node* node, const MapValues& inputs);
  int SameShape(tensorflow::Node* node, const MapValues& inputs);
  int Join(tensorflow::Node* node, const MapValues& inputs);
  int OneHot(tensorflow::Node* node, const MapValues& inputs);
  int Reshape(tensorflow::Node* node, const MapValues& inputs);
  int ExpandDims(tensorflow::Node* node, const MapValues& inputs);
  int Squeeze(tensorflow::Node* node, const MapValues& inputs);
  int Concat(tensorflow::Node* node, const MapValues& inputs);
  int Pack(tensorflow::Node* node, const MapValues& inputs);
  int Unpack(tensorflow::Node* node, const MapValues& inputs);
  int Split(tensorflow::Node* node, const MapValues& inputs);
  int StridedSlice(tensorflow::Node* node, const MapValues& inputs);

  // Increments the axis in input `place` if the axis is counted from the first dimension. Returns false if the axis is
  // not a constant, or is at least `rank`.
  bool ShiftAxis(tensorflow::Node* node, int place, int rank);
  bool ShiftAxisAttr(tensorflow::Node* node, const char* attr, int rank);
  // Replaces the constant input `place` by a vector that contains `first`, followed by the numbers of the constant.
  void Prepend(tensorflow::Node* node, int place, std::int64_t first, const Numbers& numbers);
  tensorflow::Node* Constant(const tensorflow::Node& beside, tensorflow::DataType type, const Numbers& numbers,
                             bool is_scalar);
  tensorflow::Node* Place(tensorflow::NodeBuilder* builder, const tensorflow::Node& beside);
  void Replace(tensorflow::Node* node, int place, tensorflow::Node* source);

  tensorflow::Graph* const body_;
  const Port batch_;
  tensorflow::Status status_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_GRAPH_BATCHED_OPS_H_
