#include "bridge/text_batch.h"

#include <string>
#include <utility>

#include "bridge/example_columns.h"
#include "bridge/status.h"

namespace ascpipe {

using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

tensorflow::DataType TensorTypeOf(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return tensorflow::DT_INT32;
    case CsvType::kFloat:
      return tensorflow::DT_FLOAT;
    case CsvType::kDouble:
      return tensorflow::DT_DOUBLE;
    case CsvType::kString:
      return tensorflow::DT_STRING;
    default:
      return tensorflow::DT_INT64;
  }
}

Status TextBatchParser::Parse(const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                              const OnUnfit& on_unfit, std::vector<Tensor>* tensors) const {
  const auto count = static_cast<std::int64_t>(records.size());
  CsvValues values;
  std::vector<std::vector<ByteRange>> strings(buckets_.size());
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    const CsvType type = parser_->columns()[i].type;
    const bool is_hashed = buckets_[i] != ExampleFeatures::kNotHashed;
    tensors->emplace_back(allocator, is_hashed ? tensorflow::DT_INT64 : TensorTypeOf(type), TensorShape({count}));
    if (type == CsvType::kString) {
      strings[i].resize(records.size());
      values.arrays.push_back(strings[i].data());
    } else {
      values.arrays.push_back(const_cast<char*>(tensors->back().tensor_data().data()));
    }
  }
  std::int64_t good = 0;
  std::string why;
  for (std::size_t record = 0; record < records.size(); ++record) {
    if (parser_->Parse(records[record], good, &values, &why)) {
      ++good;
    } else {
      TF_RETURN_IF_ERROR(on_unfit(record, why));
    }
  }
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    Tensor* const tensor = &(*tensors)[i];
    if (good < count) *tensor = tensor->Slice(0, good);
    if (tensor->dtype() == tensorflow::DT_STRING) {
      CopyStrings(strings[i].data(), good, tensor->flat<TensorString>().data());
    } else if (!strings[i].empty()) {
      HashStrings(strings[i].data(), good, buckets_[i], tensor->flat<tensorflow::int64>().data());
    }
  }
  return OkStatus();
}

}  // namespace ascpipe
