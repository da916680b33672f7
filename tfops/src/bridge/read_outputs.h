// Outputs of lookup ops: concatenated features and other columns.
#ifndef ASCPIPE_BRIDGE_READ_OUTPUTS_H_
#define ASCPIPE_BRIDGE_READ_OUTPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bridge/lookup_source.h"
#include "bridge/read_layout.h"
#include "core/bags.h"
#include "core/blocks.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Ids of one feature, and the rows of these ids.
struct ReadFeature {
  const LookupSource* source;
  const tensorflow::Tensor* restore;
  bool is_combined;
  Bags bags;  // valid only if is_combined

  const std::int32_t* ids() const { return restore->flat<std::int32_t>().data(); }
  std::int64_t dim() const { return source->gather().dim; }
};

using ReadFeatures = std::vector<ReadFeature>;

// One output of a lookup op.
class ReadOutput {
 public:
  // Allocates the output. `features` must stay valid while the ReadOutput is used.
  tensorflow::Status Begin(tensorflow::OpKernelContext* ctx, const ReadLayout& layout, const ReadFeatures& features,
                           int output);

  std::int64_t blocks() const { return (count_ + block_ - 1) / block_; }

  // Writes the blocks [first, last). Threads may write different blocks concurrently. `bad` receives, per feature,
  // the first restore index outside the valid range.
  void Write(const ReadFeatures& features, std::int64_t first, std::int64_t last, std::vector<FirstBad>* bad) const;

 private:
  // One of the concatenated tensors.
  struct Piece {
    int feature;  // -1: another tensor
    std::int64_t rows;
    std::int64_t width;
    std::int64_t ids;      // ids per row of the output, if the feature is not combined
    std::int64_t read;     // number of reads of `width` floats for a row
    std::int64_t column;   // first column of the piece in the output
    const float* columns;  // data of another tensor
  };

  tensorflow::Status Describe(const std::string& op, const ReadFeature& feature, int number, bool is_alone,
                              Piece* piece) const;
  tensorflow::Status DescribeOther(const std::string& op, const tensorflow::Tensor& other, int number,
                                   Piece* piece) const;

  std::vector<Piece> pieces_;
  std::int64_t count_ = -1, width_ = 0;  // rows and columns; -1: not known yet
  std::int64_t block_ = 1;               // rows that one thread writes at a time
  float* out_ = nullptr;
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_OUTPUTS_H_
