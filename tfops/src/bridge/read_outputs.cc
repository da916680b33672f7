#include "bridge/read_outputs.h"

#include <algorithm>
#include <string>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/row_copy.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

constexpr std::int64_t kBlocksOfThread = 4;  // minimum per thread, so that threads finish at about the same time

// Returns the number of rows for an error message, or "batch" if the number is unknown.
std::string Known(std::int64_t rows) { return rows < 0 ? "batch" : Text(rows); }

}  // namespace

Status ReadOutput::Begin(OpKernelContext* ctx, const ReadLayout& layout, const ReadFeatures& features, int output) {
  const std::string& op = ctx->op_kernel().type_string();
  const std::vector<int>& order = layout.outputs[static_cast<std::size_t>(output)];
  const bool is_alone = order.size() == 1;
  std::int64_t floats = 0;  // number of floats that are read for a row of the output
  for (const int which : order) {
    Piece piece = {};
    if (which < layout.feature_count) {
      TF_RETURN_IF_ERROR(Describe(op, features[static_cast<std::size_t>(which)], which, is_alone, &piece));
    } else {
      const int number = which - layout.feature_count;
      TF_RETURN_IF_ERROR(DescribeOther(op, ctx->input(layout.others + number), number, &piece));
    }
    piece.column = width_;
    count_ = piece.rows;
    width_ += piece.width;
    floats += piece.width * piece.read;
    pieces_.push_back(piece);
  }
  // Small blocks are slow if there are many pieces: in each block, the first rows of each piece are not prefetched.
  const std::int64_t threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
  block_ = std::max(4 * BlockRows(floats), count_ / (kBlocksOfThread * threads));
  TensorShape shape({count_, width_});
  if (is_alone && order[0] < layout.feature_count && !layout.is_combined(order[0])) {
    shape = features[static_cast<std::size_t>(order[0])].restore->shape();
    shape.AddDim(width_);
  }
  Tensor* made;
  TF_RETURN_IF_ERROR(ctx->allocate_output(output, shape, &made));
  out_ = made->flat<float>().data();
  return OkStatus();
}

Status ReadOutput::Describe(const std::string& op, const ReadFeature& feature, int number, bool is_alone,
                            Piece* piece) const {
  const Tensor& restore = *feature.restore;
  *piece = {number, restore.NumElements(), feature.dim(), 1, 1, 0, nullptr};
  if (feature.is_combined) {
    piece->rows = feature.bags.count;
    piece->read = 1 + restore.NumElements() / std::max<std::int64_t>(1, piece->rows);
    if (count_ < 0 || piece->rows == count_) return OkStatus();
    return Refuse(Code::kInvalidArgument, op, ": feature ", number, " has ", piece->rows, " bags, expected ", count_,
                  ", like the adjacent features");
  }
  if (is_alone) return OkStatus();
  const bool has_rank = restore.dims() == 1 || restore.dims() == 2;
  if (!has_rank || (count_ >= 0 && restore.dim_size(0) != count_)) {
    return Refuse(Code::kInvalidArgument, op, ": restore ", number, " has shape ", restore.shape().DebugString(),
                  ", expected [", Known(count_), "] or one more dimension");
  }
  piece->rows = restore.dim_size(0);
  piece->ids = restore.dims() == 2 ? restore.dim_size(1) : 1;
  piece->width *= piece->ids;
  return OkStatus();
}

Status ReadOutput::DescribeOther(const std::string& op, const Tensor& other, int number, Piece* piece) const {
  if (other.dims() != 2 || (count_ >= 0 && other.dim_size(0) != count_)) {
    return Refuse(Code::kInvalidArgument, op, ": others ", number, " has shape ", other.shape().DebugString(),
                  ", expected [", Known(count_), ", columns]");
  }
  *piece = {-1, other.dim_size(0), other.dim_size(1), 0, 1, 0, other.flat<float>().data()};
  return OkStatus();
}

void ReadOutput::Write(const ReadFeatures& features, std::int64_t first, std::int64_t last,
                       std::vector<FirstBad>* bad) const {
  const std::int64_t begin = first * block_, end = std::min(count_, last * block_);
  for (const Piece& piece : pieces_) {
    float* const out = out_ + piece.column;
    if (piece.feature < 0) {
      for (std::int64_t i = begin; i < end; ++i) {
        CopyFloats(out + i * width_, piece.columns + i * piece.width, piece.width);
      }
      continue;
    }
    const std::size_t number = static_cast<std::size_t>(piece.feature);
    const ReadFeature& feature = features[number];
    if (feature.is_combined) {
      (*bad)[number].Note(
          CombineBags({feature.source->gather(), feature.ids()}, feature.bags, begin, end, out, width_));
      continue;
    }
    const Gathered gathered = {feature.ids(), feature.restore->NumElements(), out, width_,
                               std::max<std::int64_t>(1, piece.ids)};
    (*bad)[number].Note(GatherRows(feature.source->gather(), gathered, begin * piece.ids, end * piece.ids));
  }
}

}  // namespace ascpipe
