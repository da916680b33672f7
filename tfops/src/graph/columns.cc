#include "graph/columns.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "bridge/compatibility.h"

namespace ascpipe {
namespace step {

using tensorflow::Edge;
using tensorflow::Graph;
using tensorflow::Node;
using tensorflow::NodeBuilder;
using tensorflow::Status;

namespace {

// Returns the number of columns of a matrix from its shape tensor, or -1 if the number is unknown.
std::int64_t WidthOf(const Shapes& shapes, const Port& shape) {
  Numbers numbers;
  if (ReadNumbers(shape, &numbers)) return numbers.size() == 2 ? numbers[1] : -1;
  if (shape.node == nullptr || !Is(shape.node, {"Shape", "ShapeN"})) return -1;
  return shapes.Columns(Source(shape.node, shape.index));
}

// Computes the total number of columns of several matrices. Inputs [first, first + count) of `node` are their shapes.
// Returns false if a number of columns is unknown.
bool AddWidths(const Shapes& shapes, const Node* node, int first, int count, std::int64_t* sum) {
  *sum = 0;
  for (int i = first; i < first + count; ++i) {
    const std::int64_t width = WidthOf(shapes, Source(node, i));
    if (width < 0) return false;
    *sum += width;
  }
  return true;
}

Status CutSlice(Graph* graph, const Shapes& shapes, Node* slice) {
  std::int64_t column;
  if (!BeginOfSlice(shapes, Source(slice, 1), &column)) return OkStatus();
  const Port size = Source(slice, 2);
  Node *begin, *shape;
  TF_RETURN_IF_ERROR(PlacePair(graph, 0, column, *slice, &begin));
  NodeBuilder builder(graph->NewName("ascpipe/shape"), "Shape", graph->op_registry());
  TF_RETURN_IF_ERROR(Place(graph, &builder.Input(Source(size.node, size.index).out()), {}, *slice, &shape));
  TF_RETURN_IF_ERROR(graph->UpdateEdge(begin, 0, slice, 1));
  return graph->UpdateEdge(shape, 0, slice, 2);
}

Status CutSplit(Graph* graph, const Shapes& shapes, Node* split, const NodeSet& gone) {
  Numbers sizes;
  if (!SizesOfSplit(shapes, Source(split, 1), &sizes)) return OkStatus();
  std::map<int, Node*> slices;
  const std::vector<const Edge*> edges(split->out_edges().begin(), split->out_edges().end());
  for (const Edge* edge : edges) {
    if (edge->IsControlEdge() || gone.count(edge->dst()) > 0) continue;
    Node*& slice = slices[edge->src_output()];
    if (slice == nullptr) {
      const auto output = sizes.begin() + edge->src_output();
      Node *begin, *size;
      TF_RETURN_IF_ERROR(PlacePair(graph, 0, std::accumulate(sizes.begin(), output, std::int64_t{0}), *split, &begin));
      TF_RETURN_IF_ERROR(PlacePair(graph, -1, *output, *split, &size));
      NodeBuilder builder(graph->NewName("ascpipe/slice"), "Slice", graph->op_registry());
      builder.Input(Source(split, 0).out()).Input(begin).Input(size);
      TF_RETURN_IF_ERROR(Place(graph, &builder, {}, *split, &slice));
    }
    TF_RETURN_IF_ERROR(graph->UpdateEdge(slice, 0, edge->dst(), edge->dst_input()));
  }
  return OkStatus();
}

// Reads the output shape of an AscCombine op from attributes, to avoid inferring the shapes of the nodes that compute
// the ids. Returns false if the attributes are not sufficient.
bool ReadBags(const Node& combine, Numbers* dims) {
  if (combine.type_string() != "AscCombine") return false;
  const Port lookup = Source(&combine, 0);
  if (lookup.node == nullptr || lookup.node->type_string() != "AscLookup") return false;
  const Node* const variable = Source(lookup.node, 0).node;
  const Port restore = Source(lookup.node, 2 + lookup.index);
  const std::size_t place = static_cast<std::size_t>(restore.index) - 1;
  tensorflow::PartialTensorShape rows;
  std::vector<tensorflow::PartialTensorShape> shapes;
  if (restore.node->type_string() != "AscNextPlan" || variable->type_string() != "VariableV2" ||
      !tensorflow::GetNodeAttr(variable->attrs(), "shape", &rows).ok() || rows.dims() != 2 ||
      !tensorflow::GetNodeAttr(restore.node->attrs(), "shapes", &shapes).ok() || place >= shapes.size() ||
      shapes[place].dims() != 1) {
    return false;
  }
  *dims = {-1, rows.dim_size(1)};
  return true;
}

}  // namespace

bool IsColumnAxis(const Port& axis) {
  if (axis.node == nullptr) return false;
  if (axis.node->type_string() != "FloorMod") return IsNumber(axis, 1) || IsNumber(axis, -1);
  const Port rank = Source(axis.node, 1);  // the rank of a matrix, which is 2
  return rank.node != nullptr && (rank.node->type_string() == "Rank" || IsNumber(rank, 2)) &&
         IsColumnAxis(Source(axis.node, 0));
}

void Shapes::Infer(const Node* asked) const {
  if (refiner_ == nullptr) {  // created late because it has a thread
    refiner_.reset(new tensorflow::ShapeRefiner(graph_.versions(), graph_.op_registry()));
    refiner_->set_require_shape_inference_fns(false);
    refiner_->set_function_library_for_shape_inference(&graph_.flib_def());
  }
  std::vector<std::pair<const Node*, bool>> left = {{asked, false}};  // the flag is true if the node's inputs are done
  while (!left.empty()) {
    const Node* const node = left.back().first;
    const bool has_inputs = left.back().second;
    left.pop_back();
    if (has_inputs) {
      refiner_->AddNode(node).IgnoreError();  // after an error, this shape and all shapes that depend on it are unknown
      continue;
    }
    const std::size_t id = static_cast<std::size_t>(node->id());
    if (id < seen_.size() && !seen_[id]) {
      seen_[id] = true;
      left.emplace_back(node, true);
      for (const Edge* edge : node->in_edges()) {
        if (!edge->IsControlEdge()) left.emplace_back(edge->src(), false);
      }
    }
  }
}

bool Shapes::Read(const Port& port, Numbers* dims) const {
  if (port.node == nullptr) return false;
  if (ReadBags(*port.node, dims)) return true;
  Infer(port.node);
  tensorflow::shape_inference::InferenceContext* const context = refiner_->GetContext(port.node);
  if (context == nullptr || !context->RankKnown(context->output(port.index))) return false;
  dims->clear();
  for (int axis = 0; axis < context->Rank(context->output(port.index)); ++axis) {
    dims->push_back(context->Value(context->Dim(context->output(port.index), axis)));
  }
  return true;
}

bool Shapes::IsMatrix(const Port& port) const {
  if (port.node != nullptr && port.node->type_string() == "MatMul")
    return true;  // the shape refiner would visit all predecessors
  Numbers dims;
  return Read(port, &dims) && dims.size() == 2;
}

std::int64_t Shapes::Columns(const Port& port) const {
  const auto entry = columns_.emplace(std::make_pair(port.node, port.index), -1);
  if (entry.second) entry.first->second = InferColumns(port);
  return entry.first->second;
}

std::int64_t Shapes::InferColumns(const Port& port) const {
  Numbers dims;
  if (port.node != nullptr && port.node->type_string() == "Reshape") {
    // In TensorFlow's layers, a Pack op combines the batch size and the number of columns into the new shape of a
    // Reshape op. Only the number of columns is read from the Pack op. TensorFlow's ShapeRefiner would also look for
    // the batch size, and would search the graph for constants at each call.
    const Port pack = Source(port.node, 1);
    const bool has_two = pack.node != nullptr && pack.node->type_string() == "Pack" && pack.node->num_inputs() == 2;
    if (has_two && ReadNumbers(Source(pack.node, 1), &dims) && dims.size() == 1 && dims[0] >= 0) return dims[0];
  }
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

void WaitForWhole(Graph* graph, Node* cut) {
  const std::vector<const Edge*> edges(cut->out_edges().begin(), cut->out_edges().end());
  for (const Edge* edge : edges) {
    if (!edge->IsControlEdge() || !edge->dst()->IsOp()) continue;
    graph->AddControlEdge(Source(cut, 0).node, edge->dst());
    graph->RemoveControlEdge(edge);
  }
}

Status CutOut(Graph* graph, const Shapes& shapes, Node* cut, const NodeSet& gone) {
  return cut->type_string() == "Slice" ? CutSlice(graph, shapes, cut) : CutSplit(graph, shapes, cut, gone);
}

}  // namespace step
}  // namespace ascpipe
