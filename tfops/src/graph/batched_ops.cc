#include "graph/batched_ops.h"

#include <algorithm>
#include <bitset>
#include <set>
#include <string>
#include <unordered_map>

#include "bridge/compatibility.h"

namespace ascpipe {

using tensorflow::DataType;
using tensorflow::Node;
using tensorflow::NodeBuilder;

namespace {

bool AreOnce(const MapValues& values, std::size_t first) {
  return std::all_of(values.begin() + static_cast<std::ptrdiff_t>(first), values.end(),
                     [](const MapValue& value) { return value.once(); });
}

// Returns the common rank of the first `count` values, or -1 if the ranks differ or a value is not batched.
int CommonRank(const MapValues& values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!values[i].batched() || values[i].rank != values[0].rank) return -1;
  }
  return count == 0 ? -1 : values[0].rank;
}

int Bits(int mask) { return static_cast<int>(std::bitset<32>(static_cast<unsigned>(mask)).count()); }

template <typename T>
void SetAttr(Node* node, const char* name, const T& value) {
  node->ClearAttr(name);
  node->AddAttr(name, value);
}

}  // namespace

// Add a rule for an op on floats only if vectorization does not change its results. For example, vectorized and scalar
// code may differ in the bits of Log, the sign of a zero of Neg, and the NaN of Maximum.
BatchedOps::Rule BatchedOps::RuleOf(const Node& node) {
  static const auto* const rules = new std::unordered_map<std::string, Rule>{
      {"Abs", &BatchedOps::Unary},
      {"Add", &BatchedOps::Broadcast},
      {"AddV2", &BatchedOps::Broadcast},
      {"AsString", &BatchedOps::Unary},
      {"Cast", &BatchedOps::Unary},
      {"ConcatV2", &BatchedOps::Concat},
      {"DecodeCSV", &BatchedOps::Unary},
      {"DecodeRaw", &BatchedOps::AddsDimension},
      {"Equal", &BatchedOps::Broadcast},
      {"ExpandDims", &BatchedOps::ExpandDims},
      {"FloorDiv", &BatchedOps::BroadcastIntegers},
      {"FloorMod", &BatchedOps::BroadcastIntegers},
      {"Greater", &BatchedOps::Broadcast},
      {"GreaterEqual", &BatchedOps::Broadcast},
      {"Identity", &BatchedOps::Unary},
      {"Less", &BatchedOps::Broadcast},
      {"LessEqual", &BatchedOps::Broadcast},
      {"LogicalAnd", &BatchedOps::Broadcast},
      {"LogicalNot", &BatchedOps::Unary},
      {"LogicalOr", &BatchedOps::Broadcast},
      {"Maximum", &BatchedOps::BroadcastIntegers},
      {"Minimum", &BatchedOps::BroadcastIntegers},
      {"Mul", &BatchedOps::Broadcast},
      {"Neg", &BatchedOps::UnaryIntegers},
      {"NotEqual", &BatchedOps::Broadcast},
      {"OneHot", &BatchedOps::OneHot},
      {"OnesLike", &BatchedOps::Unary},
      {"Pack", &BatchedOps::Pack},
      {"RealDiv", &BatchedOps::Broadcast},
      {"RegexReplace", &BatchedOps::Unary},
      {"Reshape", &BatchedOps::Reshape},
      {"Select", &BatchedOps::SameShape},
      {"Split", &BatchedOps::Split},
      {"Square", &BatchedOps::Unary},
      {"Squeeze", &BatchedOps::Squeeze},
      {"StaticRegexReplace", &BatchedOps::Unary},
      {"StridedSlice", &BatchedOps::StridedSlice},
      {"StringJoin", &BatchedOps::Join},
      {"StringStrip", &BatchedOps::Unary},
      {"StringToHashBucket", &BatchedOps::Unary},
      {"StringToHashBucketFast", &BatchedOps::Unary},
      {"StringToHashBucketStrong", &BatchedOps::Unary},
      {"StringToNumber", &BatchedOps::Unary},
      {"Sub", &BatchedOps::Broadcast},
      {"Unpack", &BatchedOps::Unpack},
      {"ZerosLike", &BatchedOps::Unary},
  };
  const auto found = rules->find(node.type_string());
  return found == rules->end() ? nullptr : found->second;
}

int BatchedOps::Batch(Node* node, const MapValues& inputs) {
  const Rule rule = RuleOf(*node);
  return rule == nullptr || inputs.empty() ? -1 : (this->*rule)(node, inputs);
}

int BatchedOps::Unary(Node*, const MapValues& inputs) {
  return inputs[0].batched() && AreOnce(inputs, 1) ? inputs[0].rank : -1;
}

int BatchedOps::UnaryIntegers(Node* node, const MapValues& inputs) {
  return tensorflow::DataTypeIsInteger(node->output_type(0)) ? Unary(node, inputs) : -1;
}

int BatchedOps::AddsDimension(Node* node, const MapValues& inputs) {
  const int rank = Unary(node, inputs);
  return rank < 0 ? -1 : rank + 1;
}

// All batched inputs must have the same rank, because broadcasting aligns the last dimensions of both inputs.
int BatchedOps::Broadcast(Node*, const MapValues& inputs) {
  int rank = -1;
  for (const MapValue& input : inputs) {
    if (input.batched()) rank = std::max(rank, input.rank);
  }
  for (const MapValue& input : inputs) {
    if (input.batched() ? input.rank != rank : !input.once() || input.rank < 0 || input.rank > rank) return -1;
  }
  return rank;
}

int BatchedOps::BroadcastIntegers(Node* node, const MapValues& inputs) {
  return tensorflow::DataTypeIsInteger(node->output_type(0)) ? Broadcast(node, inputs) : -1;
}

int BatchedOps::SameShape(Node*, const MapValues& inputs) { return CommonRank(inputs, inputs.size()); }

int BatchedOps::Join(Node*, const MapValues& inputs) {
  MapValues batched;
  for (const MapValue& input : inputs) {
    if (!input.once()) {
      batched.push_back(input);
    } else if (input.rank != 0) {
      return -1;
    }
  }
  return CommonRank(batched, batched.size());
}

int BatchedOps::OneHot(Node* node, const MapValues& inputs) {
  const int rank = Unary(node, inputs);
  return rank >= 0 && ShiftAxisAttr(node, "axis", rank + 1) ? rank + 1 : -1;
}

int BatchedOps::Reshape(Node* node, const MapValues& inputs) {
  const Port shape = Source(node, 1);
  Numbers sizes;
  if (!inputs[0].batched() || inputs[1].rank != 1 || !ReadNumbers(shape, &sizes)) return -1;
  const DataType type = shape.node->output_type(shape.index);
  NodeBuilder whole(body_->NewName(node->name() + "_batch_shape"), "Shape", body_->op_registry());
  Node* const batch_shape = Place(&whole.Input(batch_.out()).Attr("out_type", type), *node);
  NodeBuilder first(body_->NewName(node->name() + "_batch_size"), "Slice", body_->op_registry());
  Node* const begin = Constant(*node, tensorflow::DT_INT32, {0}, false);
  Node* const size = Constant(*node, tensorflow::DT_INT32, {1}, false);
  Node* const axis = Constant(*node, tensorflow::DT_INT32, {0}, true);
  if (!status_.ok()) return -1;
  Node* const batch_size = Place(&first.Input(batch_shape).Input(begin).Input(size), *node);
  if (!status_.ok()) return -1;
  NodeBuilder joined(body_->NewName(node->name() + "_shape"), "ConcatV2", body_->op_registry());
  const std::vector<NodeBuilder::NodeOut> parts{{batch_size, 0}, shape.out()};
  Replace(node, 1, Place(&joined.Input(parts).Input(axis), *node));
  return static_cast<int>(sizes.size());
}

int BatchedOps::ExpandDims(Node* node, const MapValues& inputs) {
  return inputs[0].batched() && ShiftAxis(node, 1, inputs[0].rank + 1) ? inputs[0].rank + 1 : -1;
}

int BatchedOps::Squeeze(Node* node, const MapValues& inputs) {
  std::vector<int> dims;
  if (!inputs[0].batched() || !tensorflow::GetNodeAttr(node->attrs(), "squeeze_dims", &dims).ok()) return -1;
  const int rank = inputs[0].rank;
  std::set<int> removed;
  for (int& dim : dims) {
    if (dim < -rank || dim >= rank) return -1;
    removed.insert(dim < 0 ? dim + rank : dim);
    if (dim >= 0) ++dim;
  }
  if (removed.empty()) return -1;  // The op would also remove the first dimension of a batch of one element.
  SetAttr(node, "squeeze_dims", dims);
  return rank - static_cast<int>(removed.size());
}

int BatchedOps::Concat(Node* node, const MapValues& inputs) {
  const int rank = CommonRank(inputs, inputs.size() - 1);
  return rank >= 0 && ShiftAxis(node, static_cast<int>(inputs.size()) - 1, rank) ? rank : -1;
}

int BatchedOps::Pack(Node* node, const MapValues& inputs) {
  const int rank = CommonRank(inputs, inputs.size());
  return rank >= 0 && ShiftAxisAttr(node, "axis", rank + 1) ? rank + 1 : -1;
}

int BatchedOps::Unpack(Node* node, const MapValues& inputs) {
  return inputs[0].batched() && ShiftAxisAttr(node, "axis", inputs[0].rank) ? inputs[0].rank - 1 : -1;
}

int BatchedOps::Split(Node* node, const MapValues& inputs) {
  return inputs[1].batched() && ShiftAxis(node, 0, inputs[1].rank) ? inputs[1].rank : -1;
}

int BatchedOps::StridedSlice(Node* node, const MapValues& inputs) {
  const char* const kMasks[] = {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"};
  Numbers bounds[3];
  int masks[5];
  for (int i = 0; i < 5; ++i) masks[i] = IntOf(node, kMasks[i]);
  for (int i = 0; i < 3; ++i) {
    if (!ReadNumbers(Source(node, i + 1), &bounds[i])) return -1;
  }
  const int added = Bits(masks[3]), removed = Bits(masks[4]);
  const int sliced = static_cast<int>(bounds[0].size()) - added - Bits(masks[2]);
  if (!inputs[0].batched() || (masks[3] & masks[4]) != 0 || sliced > inputs[0].rank || bounds[0].size() > 30) {
    return -1;
  }
  for (int i = 0; i < 5; ++i) SetAttr(node, kMasks[i], (masks[i] << 1) | (i < 2 ? 1 : 0));
  for (int i = 0; i < 3; ++i) Prepend(node, i + 1, i == 2 ? 1 : 0, bounds[i]);
  return inputs[0].rank + added - removed;
}

bool BatchedOps::ShiftAxis(Node* node, int place, int rank) {
  Numbers axis;
  const Port source = Source(node, place);
  if (!ReadNumbers(source, &axis) || axis.size() != 1 || axis[0] < -rank || axis[0] >= rank) return false;
  if (axis[0] >= 0) {
    tensorflow::Tensor value;
    const bool is_scalar = ReadTensor(source.node, &value) && value.dims() == 0;
    Replace(node, place, Constant(*node, value.dtype(), {axis[0] + 1}, is_scalar));
  }
  return true;
}

bool BatchedOps::ShiftAxisAttr(Node* node, const char* attr, int rank) {
  int axis = 0;
  if (!tensorflow::GetNodeAttr(node->attrs(), attr, &axis).ok() || axis < -rank || axis >= rank) return false;
  if (axis >= 0) SetAttr(node, attr, axis + 1);
  return true;
}

void BatchedOps::Prepend(Node* node, int place, std::int64_t first, const Numbers& numbers) {
  Numbers all{first};
  all.insert(all.end(), numbers.begin(), numbers.end());
  const Port source = Source(node, place);
  Replace(node, place, Constant(*node, source.node->output_type(source.index), all, false));
}

Node* BatchedOps::Constant(const Node& beside, DataType type, const Numbers& numbers, bool is_scalar) {
  using tensorflow::TensorShape;
  const auto size = static_cast<tensorflow::int64>(numbers.size());
  tensorflow::Tensor value(type, is_scalar ? TensorShape() : TensorShape({size}));
  for (tensorflow::int64 i = 0; i < size; ++i) {
    const std::int64_t number = numbers[static_cast<std::size_t>(i)];
    if (type == tensorflow::DT_INT32) {
      value.flat<tensorflow::int32>()(i) = static_cast<tensorflow::int32>(number);
    } else {
      value.flat<tensorflow::int64>()(i) = number;
    }
  }
  NodeBuilder builder(body_->NewName(beside.name() + "_batched"), "Const", body_->op_registry());
  return Place(&builder.Attr("dtype", type).Attr("value", value), beside);
}

Node* BatchedOps::Place(NodeBuilder* builder, const Node& beside) {
  Node* node = nullptr;
  if (status_.ok()) status_ = ascpipe::Place(body_, builder, {}, beside, &node);
  return node;
}

void BatchedOps::Replace(Node* node, int place, Node* source) {
  if (status_.ok()) status_ = body_->UpdateEdge(source, 0, node, place);
}

}  // namespace ascpipe
