#include "bridge/example_batch.h"

#include <algorithm>
#include <utility>

#include "bridge/status.h"
#include "tensorflow/core/framework/types.h"

namespace ascpipe {

namespace {

using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::example::FastParseExample;
using tensorflow::example::Result;

// Copies a tensor to memory of an allocator. Tensors of strings are not copied, because the memory of strings does not
// store a ReadPosition.
Tensor CopiedTo(tensorflow::Allocator* allocator, const Tensor& tensor) {
  if (!tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) return tensor;
  Tensor copy(allocator, tensor.dtype(), tensor.shape());
  const tensorflow::StringPiece bytes = tensor.tensor_data();
  std::copy(bytes.begin(), bytes.end(), const_cast<char*>(copy.tensor_data().data()));
  return copy;
}

}  // namespace

ExampleBatchParser::ExampleBatchParser(ExampleFeatures features) : features_(std::move(features)) {
  std::vector<WantedFeature> common = CommonFeatures(features_.config);
  if (!common.empty()) common_.reset(new ExampleParser(std::move(common)));
}

Status ExampleBatchParser::Parse(const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                                 const OnUnfit& on_unfit, std::vector<Tensor>* tensors) const {
  const ShareWork alone = [](std::int64_t total, std::int64_t, const Blocks::Work& work) { work(0, total); };
  Result result;
  if (common_ == nullptr || !ParseCommonForm(alone, *common_, features_, records, allocator, &result)) {
    result = Result();
    TF_RETURN_IF_ERROR(ParseUnusual(records, on_unfit, &result));
    std::size_t feature = 0;
    for (auto* const values : {&result.dense_values, &result.sparse_values}) {
      for (Tensor& tensor : *values) {
        const std::int64_t buckets = features_.BucketsOf(feature++);
        tensor =
            buckets == ExampleFeatures::kNotHashed ? CopiedTo(allocator, tensor) : Hashed(tensor, buckets, allocator);
      }
    }
  }
  for (auto* const columns :
       {&result.dense_values, &result.sparse_indices, &result.sparse_values, &result.sparse_shapes}) {
    for (Tensor& tensor : *columns) tensors->push_back(std::move(tensor));
  }
  return OkStatus();
}

Status ExampleBatchParser::ParseUnusual(const std::vector<ByteRange>& records, const OnUnfit& on_unfit,
                                        Result* result) const {
  std::vector<TensorString> all;
  all.reserve(records.size());
  for (const ByteRange& record : records) all.emplace_back(record.data, record.size);
  const Status status = FastParseExample(features_.config, all, {}, nullptr, result);
  if (status.ok()) return status;
  std::vector<TensorString> good;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<TensorString> one = {all[i]};
    Result ignored;
    const Status fits = FastParseExample(features_.config, one, {}, nullptr, &ignored);
    if (fits.ok()) {
      good.push_back(all[i]);
    } else {
      TF_RETURN_IF_ERROR(on_unfit(i, MessageOf(fits)));
    }
  }
  if (good.size() == all.size()) return status;  // every record can be parsed alone
  *result = Result();
  return FastParseExample(features_.config, good, {}, nullptr, result);
}

}  // namespace ascpipe
