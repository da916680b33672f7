#include "graph/columns.h"

#include <algorithm>
#include <numeric>

#include "tensorflow/core/graph/algorithm.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;

namespace {

std::vector<bool> NodesBefore(const Graph& graph, Nodes left) {
  std::vector<bool> before(static_cast<std::size_t>(graph.num_node_ids()));
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    if (before[static_cast<std::size_t>(node->id())]) continue;
    before[static_cast<std::size_t>(node->id())] = true;
    for (const Edge* edge : node->in_edges()) {
      if (!edge->IsControlEdge()) left.push_back(edge->src());
    }
  }
  return before;
}

// The columns that the shape of a matrix has, -1 where they are not known.
std::int64_t WidthOf(const Shapes& shapes, const Port& shape) {
  Numbers numbers;
  if (ReadNumbers(shape, &numbers)) return numbers.size() == 2 ? numbers[1] : -1;
  if (shape.node == nullptr || !Is(shape.node, {"Shape", "ShapeN"})) return -1;
  return shapes.Columns(Source(shape.node, shape.index));
}

// The sum of the columns that the first `count` inputs of a node from `first` on name as shapes; false: not known.
bool AddWidths(const Shapes& shapes, const Node* node, int first, int count, std::int64_t* sum) {
  *sum = 0;
  for (int i = first; i < first + count; ++i) {
    const std::int64_t width = WidthOf(shapes, Source(node, i));
    if (width < 0) return false;
    *sum += width;
  }
  return true;
}

}  // namespace

bool IsColumnAxis(const Port& axis) {
  if (axis.node == nullptr) return false;
  if (axis.node->type_string() != "FloorMod") return IsNumber(axis, 1) || IsNumber(axis, -1);
  const Port rank = Source(axis.node, 1);  // of a matrix, as all of this is about
  return rank.node != nullptr && (rank.node->type_string() == "Rank" || IsNumber(rank, 2)) &&
         IsColumnAxis(Source(axis.node, 0));
}

Shapes::Shapes(const Graph& graph, const Nodes& nodes) : refiner_(graph.versions(), graph.op_registry()) {
  refiner_.set_require_shape_inference_fns(false);
  refiner_.set_function_library_for_shape_inference(&graph.flib_def());
  const std::vector<bool> before = NodesBefore(graph, nodes);
  Nodes order;
  tensorflow::GetReversePostOrder(graph, &order);
  for (const Node* node : order) {
    if (before[static_cast<std::size_t>(node->id())] && !refiner_.AddNode(node).ok()) return;  // the rest is not known
  }
}

bool Shapes::Read(const Port& port, Numbers* dims) const {
  tensorflow::shape_inference::InferenceContext* const context = refiner_.GetContext(port.node);
  if (context == nullptr || !context->RankKnown(context->output(port.index))) return false;
  dims->clear();
  for (int axis = 0; axis < context->Rank(context->output(port.index)); ++axis) {
    dims->push_back(context->Value(context->Dim(context->output(port.index), axis)));
  }
  return true;
}

bool Shapes::IsMatrix(const Port& port) const {
  Numbers dims;
  return Read(port, &dims) && dims.size() == 2;
}

std::int64_t Shapes::Columns(const Port& port) const {
  Numbers dims;
  return Read(port, &dims) && dims.size() == 2 ? dims[1] : -1;
}

bool FindColumns(const Shapes& shapes, Port at, Columns* columns, Nodes* passed) {
  for (; at.node != nullptr && Is(at.node, {"Identity", "Reshape"}); at = Source(at.node, 0))
    passed->push_back(at.node);
  if (at.node == nullptr || !Is(at.node, {"Slice", "SplitV"})) return false;
  passed->push_back(at.node);
  columns->cut = at.node;
  columns->whole = Source(at.node, 0);
  if (at.node->type_string() == "Slice") {
    columns->count = WidthOf(shapes, Source(at.node, 2));
    return BeginOfSlice(shapes, Source(at.node, 1), &columns->begin) && columns->count >= 0;
  }
  Numbers sizes;
  if (!IsColumnAxis(Source(at.node, 2)) || !shapes.IsMatrix(columns->whole) ||
      !SizesOfSplit(shapes, Source(at.node, 1), &sizes) || at.index >= static_cast<int>(sizes.size()) ||
      std::any_of(sizes.begin(), sizes.begin() + at.index + 1, [](std::int64_t size) { return size < 0; })) {
    return false;
  }
  columns->begin = std::accumulate(sizes.begin(), sizes.begin() + at.index, std::int64_t{0});
  columns->count = sizes[static_cast<std::size_t>(at.index)];
  return true;
}

bool HasKnownPlace(const Shapes& shapes, const Node& cut) {
  if (cut.type_string() == "Slice") {
    std::int64_t column;
    return Source(&cut, 1).node->type_string() == "ConcatOffset" && BeginOfSlice(shapes, Source(&cut, 1), &column) &&
           Source(&cut, 2).node->type_string() == "ShapeN";
  }
  Numbers sizes;
  return IsColumnAxis(Source(&cut, 2)) && shapes.IsMatrix(Source(&cut, 0)) &&
         SizesOfSplit(shapes, Source(&cut, 1), &sizes) &&
         std::all_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size >= 0; });
}

bool BeginOfSlice(const Shapes& shapes, const Port& begin, std::int64_t* column) {
  Numbers numbers;
  if (ReadNumbers(begin, &numbers)) {
    if (numbers.size() != 2 || numbers[0] != 0) return false;
    *column = numbers[1];
    return true;
  }
  return begin.node != nullptr && begin.node->type_string() == "ConcatOffset" && IsColumnAxis(Source(begin.node, 0)) &&
         AddWidths(shapes, begin.node, 1, begin.index, column);
}

bool SizesOfSplit(const Shapes& shapes, const Port& port, Numbers* sizes) {
  if (ReadNumbers(port, sizes)) return true;
  if (port.node == nullptr || port.node->type_string() != "Squeeze") return false;
  const Node* const slice = Source(port.node, 0).node;
  Numbers begin, size;
  if (slice == nullptr || slice->type_string() != "Slice" || !ReadNumbers(Source(slice, 1), &begin) ||
      !ReadNumbers(Source(slice, 2), &size) || begin != Numbers{1, 0} || size.size() != 2 || size[0] != 1) {
    return false;
  }
  const Node* const pack = Source(slice, 0).node;
  if (pack == nullptr || pack->type_string() != "Pack" || IntOf(pack, "axis") != 1 ||
      (size[1] != -1 && size[1] != pack->num_inputs())) {
    return false;
  }
  sizes->clear();
  for (int i = 0; i < pack->num_inputs(); ++i) sizes->push_back(WidthOf(shapes, Source(pack, i)));
  return true;
}

}  // namespace step
}  // namespace ascpipe
