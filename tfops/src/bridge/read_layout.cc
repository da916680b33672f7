#include "bridge/read_layout.h"

#include <algorithm>
#include <numeric>

#include "bridge/status.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::Status;
using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

namespace {

bool AreIn(const std::vector<int>& numbers, int least, int end) {
  return std::all_of(numbers.begin(), numbers.end(), [=](int number) { return number >= least && number < end; });
}

// Returns true if `order` contains each piece once and `pieces` contains the number of pieces of each output.
bool AreOutputs(std::vector<int> order, const std::vector<int>& pieces, int pieces_count, int outputs) {
  std::vector<int> all(static_cast<std::size_t>(pieces_count));
  std::iota(all.begin(), all.end(), 0);
  std::sort(order.begin(), order.end());
  return order == all && static_cast<int>(pieces.size()) == outputs &&
         std::all_of(pieces.begin(), pieces.end(), [](int count) { return count >= 1; }) &&
         std::accumulate(pieces.begin(), pieces.end(), 0) == pieces_count;
}

template <typename Context>
Status ReadAttributes(Context* context, ReadLayout* layout) {
  int outputs;
  std::vector<int> order, pieces;
  TF_RETURN_IF_ERROR(context->GetAttr("n", &layout->source_count));
  TF_RETURN_IF_ERROR(context->GetAttr("k", &layout->feature_count));
  TF_RETURN_IF_ERROR(context->GetAttr("b", &layout->splits_count));
  TF_RETURN_IF_ERROR(context->GetAttr("w", &layout->weights_count));
  TF_RETURN_IF_ERROR(context->GetAttr("m", &layout->other_count));
  TF_RETURN_IF_ERROR(context->GetAttr("o", &outputs));
  TF_RETURN_IF_ERROR(context->GetAttr("sources", &layout->sources));
  TF_RETURN_IF_ERROR(context->GetAttr("bags", &layout->bags));
  TF_RETURN_IF_ERROR(context->GetAttr("order", &order));
  TF_RETURN_IF_ERROR(context->GetAttr("pieces", &pieces));
  const int pieces_count = layout->feature_count + layout->other_count;
  if (!AreOutputs(order, pieces, pieces_count, outputs)) {
    return Refuse(Code::kInvalidArgument, "AscRead: order must have each of 0 to ", pieces_count - 1,
                  " once, and pieces as many in ", outputs, " outputs");
  }
  const std::size_t features = static_cast<std::size_t>(layout->feature_count);
  if (layout->sources.size() != features || layout->bags.size() != features ||
      !AreIn(layout->sources, 0, layout->source_count) || !AreIn(layout->bags, -1, layout->splits_count)) {
    return Refuse(Code::kInvalidArgument, "AscRead: sources and bags must be of ", features,
                  " features, sources below ", layout->source_count, " and bags below ", layout->splits_count);
  }
  auto piece = order.begin();
  for (const int count : pieces) {
    layout->outputs.emplace_back(piece, piece + count);
    piece += count;
  }
  layout->default_row = 2 * layout->source_count;
  layout->restore = 3 * layout->source_count;
  layout->splits = layout->restore + layout->feature_count;
  layout->weights = layout->splits + layout->splits_count;
  layout->others = layout->weights + layout->weights_count;
  return OkStatus();
}

// Infers the rows and columns of a piece of a concatenated output.
Status ShapeOfPiece(InferenceContext* c, const ReadLayout& layout, int which, DimensionHandle* count,
                    DimensionHandle* columns) {
  ShapeHandle shape;
  if (which >= layout.feature_count) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(layout.others + which - layout.feature_count), 2, &shape));
    *count = c->Dim(shape, 0);
    *columns = c->Dim(shape, 1);
    return OkStatus();
  }
  const std::size_t feature = static_cast<std::size_t>(which);
  TF_RETURN_IF_ERROR(c->WithRank(c->input(layout.sources[feature]), 2, &shape));
  const DimensionHandle dim = c->Dim(shape, 1);
  if (layout.is_combined(which)) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(layout.splits + layout.bags[feature]), 1, &shape));
    *columns = dim;
    return c->Subtract(c->Dim(shape, 0), 1, count);
  }
  TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(layout.restore + which), 1, &shape));
  TF_RETURN_IF_ERROR(c->WithRankAtMost(shape, 2, &shape));
  *count = c->Dim(shape, 0);
  const DimensionHandle side_by_side = !c->RankKnown(shape)  ? c->UnknownDim()
                                       : c->Rank(shape) == 2 ? c->Dim(shape, 1)
                                                             : c->MakeDim(1);
  return c->Multiply(side_by_side, dim, columns);
}

Status ShapeOfOutput(InferenceContext* c, const ReadLayout& layout, int output, ShapeHandle* shape) {
  const std::vector<int>& pieces = layout.outputs[static_cast<std::size_t>(output)];
  if (pieces.size() == 1 && pieces[0] < layout.feature_count && !layout.is_combined(pieces[0])) {
    ShapeHandle rows;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(layout.sources[static_cast<std::size_t>(pieces[0])]), 2, &rows));
    return c->Concatenate(c->input(layout.restore + pieces[0]), c->Vector(c->Dim(rows, 1)), shape);
  }
  auto batch = c->UnknownDim(), width = c->MakeDim(0);
  for (const int which : pieces) {
    DimensionHandle count, columns;
    TF_RETURN_IF_ERROR(ShapeOfPiece(c, layout, which, &count, &columns));
    TF_RETURN_IF_ERROR(c->Merge(batch, count, &batch));
    TF_RETURN_IF_ERROR(c->Add(width, columns, &width));
  }
  *shape = c->Matrix(batch, width);
  return OkStatus();
}

}  // namespace

ReadLayout LayoutOfTable(int features) {
  ReadLayout layout;
  layout.source_count = 1;
  layout.feature_count = features;
  layout.restore = 2;
  layout.default_row = 2 + features;
  layout.sources.assign(static_cast<std::size_t>(features), 0);
  layout.bags.assign(static_cast<std::size_t>(features), -1);
  for (int i = 0; i < features; ++i) layout.outputs.push_back({i});
  return layout;
}

Status ReadLayoutOf(tensorflow::OpKernelConstruction* construction, ReadLayout* layout) {
  return ReadAttributes(construction, layout);
}

Status ReadLayoutOf(InferenceContext* context, ReadLayout* layout) { return ReadAttributes(context, layout); }

Status ShapesOfRead(InferenceContext* c) {
  ReadLayout layout;
  TF_RETURN_IF_ERROR(ReadLayoutOf(c, &layout));
  for (int i = 0; i < c->num_outputs(); ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(ShapeOfOutput(c, layout, i, &shape));
    c->set_output(i, shape);
  }
  return OkStatus();
}

}  // namespace ascpipe
