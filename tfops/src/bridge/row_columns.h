// Tensors of the features of a batch, gathered from the columns of decoded row groups.
#ifndef ASCPIPE_BRIDGE_ROW_COLUMNS_H_
#define ASCPIPE_BRIDGE_ROW_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bridge/batch_parser.h"
#include "bridge/example_columns.h"
#include "input/row_group_reader.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/status.h"

namespace ascpipe {

// Column i of a row group contains the values of feature i. Dense features precede sparse features.
class RowColumns {
 public:
  explicit RowColumns(ExampleFeatures features);

  // Returns the names of the columns.
  std::vector<std::string> names() const;

  // Gathers the rows of a batch: the dense tensors, then the indices of all sparse features, their values, and their
  // shapes. BatchParser::Parse describes the other parameters.
  tensorflow::Status Gather(const std::vector<RowRun>& rows, tensorflow::Allocator* allocator,
                            const BatchParser::OnUnfit& on_unfit, std::vector<tensorflow::Tensor>* tensors) const;

 private:
  struct Sparse;

  bool is_dense(std::size_t feature) const { return feature < features_.config.dense.size(); }
  std::string NameOf(std::size_t feature) const;
  tensorflow::DataType TypeOf(std::size_t feature) const;  // returns the type of the values in the column
  std::int64_t CountOf(std::size_t feature) const;         // returns the number of values of a dense feature
  // Returns true if some of `values` may be outside the range of the feature's type.
  bool MayExceed(std::size_t feature, const ArrowValues& values) const {
    return values.may_exceed() && TypeOf(feature) == tensorflow::DT_INT64;
  }
  tensorflow::Tensor NewValues(std::size_t feature, const tensorflow::TensorShape& shape,
                               tensorflow::Allocator* allocator) const;

  // Returns the reason why the values of a row are invalid for a feature, or an empty text if they are valid.
  std::string WhyUnfit(std::size_t feature, const ArrowColumn& column, std::int64_t row) const;
  // Removes the rows with values that are invalid for a feature. Returns the number of remaining rows.
  tensorflow::Status RemoveUnfit(const BatchParser::OnUnfit& on_unfit, std::vector<RowRun>* rows,
                                 std::int64_t* count) const;
  tensorflow::Status GatherDense(std::size_t feature, const std::vector<RowRun>& rows, tensorflow::Tensor* out) const;
  tensorflow::Status GatherSparse(std::size_t feature, const std::vector<RowRun>& rows,
                                  tensorflow::Allocator* allocator, Sparse* out) const;
  // Converts the values at the positions `at`, and writes the results to `out`, beginning with element `first`.
  tensorflow::Status Convert(std::size_t feature, const ArrowValues& values, const std::vector<std::int64_t>& at,
                             std::int64_t first, tensorflow::Tensor* out) const;

  ExampleFeatures features_;
  std::vector<tensorflow::Tensor> defaults_;  // default values of the dense features; hashed for a hashed feature
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_ROW_COLUMNS_H_
