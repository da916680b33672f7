#include "bridge/example_columns.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>

#include "bridge/compatibility.h"

// TensorFlow's library contains FarmHash, but the headers of FarmHash differ between versions of TensorFlow.
namespace util {
std::uint64_t Fingerprint64(const char* data, std::size_t size);
}

namespace ascpipe {

constexpr std::int64_t ExampleFeatures::kNotHashed;
constexpr std::int64_t ExampleFeatures::kFingerprint;

namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;

std::int64_t HashOf(const char* data, std::size_t size, std::int64_t buckets) {
  const std::uint64_t print = util::Fingerprint64(data, size);
  if (buckets == ExampleFeatures::kFingerprint) return static_cast<std::int64_t>(print & INT64_MAX);
  return static_cast<std::int64_t>(print % static_cast<std::uint64_t>(buckets));
}

}  // namespace

void CopyDefault(const Tensor& value, std::int64_t record, Tensor* out) {
  const std::int64_t count = value.NumElements();
  switch (value.dtype()) {
    case tensorflow::DT_INT64:
      std::copy_n(value.flat<tensorflow::int64>().data(), count,
                  out->flat<tensorflow::int64>().data() + record * count);
      break;
    case tensorflow::DT_FLOAT:
      std::copy_n(value.flat<float>().data(), count, out->flat<float>().data() + record * count);
      break;
    default:
      std::copy_n(value.flat<TensorString>().data(), count, out->flat<TensorString>().data() + record * count);
  }
}

void CopyStrings(const ByteRange* strings, std::int64_t count, TensorString* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i].assign(strings[i].data, strings[i].size);
}

void HashStrings(const ByteRange* strings, std::int64_t count, std::int64_t buckets, tensorflow::int64* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = HashOf(strings[i].data, strings[i].size, buckets);
}

namespace {

// A batch is divided into at most kMostBlocks blocks, because each block needs memory for a Column of each feature.
constexpr std::int64_t kMostBlocks = 64, kLeastRecords = 16;

bool TypeOf(tensorflow::DataType dtype, ValueType* type) {
  if (dtype == tensorflow::DT_INT64) {
    *type = ValueType::kInt64;
  } else if (dtype == tensorflow::DT_FLOAT) {
    *type = ValueType::kFloat;
  } else if (dtype == tensorflow::DT_STRING) {
    *type = ValueType::kBytes;
  } else {
    return false;
  }
  return true;
}

std::int64_t* Numbers(Tensor* tensor) {
  return reinterpret_cast<std::int64_t*>(tensor->flat<tensorflow::int64>().data());
}

// Batch that is being parsed. Each block of records has separate columns, but all blocks share the output tensors of
// features with a fixed count.
class ExampleBatch {
 public:
  ExampleBatch(const ExampleParser& parser, const ExampleFeatures& features, const std::vector<ByteRange>& records,
               tensorflow::Allocator* allocator, tensorflow::example::Result* result)
      : parser_(parser),
        features_(features),
        config_(features.config),
        records_(records.data()),
        count_(static_cast<std::int64_t>(records.size())),
        allocator_(allocator),
        block_(std::max(kLeastRecords, (count_ + kMostBlocks - 1) / kMostBlocks)),
        columns_((count_ + block_ - 1) / block_, std::vector<Column>(parser.features().size())),
        result_(result) {
    for (auto* const tensors : {&result->sparse_indices, &result->sparse_values, &result->sparse_shapes}) {
      tensors->resize(config_.sparse.size());
    }
    result->dense_values.reserve(config_.dense.size());
    for (std::size_t i = 0; i < config_.dense.size(); ++i) {
      const auto& dense = config_.dense[i];
      TensorShape shape;
      dense.shape.AsTensorShape(&shape);
      shape.InsertDim(0, count_);
      result->dense_values.emplace_back(allocator, TypeOfTensor(i, dense.dtype), shape);
      defaults_.push_back(IsHashed(i) ? Hashed(dense.default_value, features.BucketsOf(i), allocator)
                                      : dense.default_value);
    }
  }

  std::int64_t block() const { return block_; }  // number of records of a block

  // Parses the records [begin, end). `begin` is the first record of a block. Several threads may parse blocks. Parse
  // does nothing after any thread has found an unusual record.
  void Parse(std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end && !unusual_.load(std::memory_order_relaxed); at += block_) {
      if (!ParseBlock(at, std::min(end, at + block_))) unusual_.store(true, std::memory_order_relaxed);
    }
  }

  bool is_unusual() const { return unusual_.load(); }

  // Creates the tensors of a feature with a variable count. Call Join after all blocks were parsed. `number` is the
  // index of the feature in `config.sparse`. Several threads may call Join for different features.
  void Join(std::size_t number) {
    const std::size_t index = config_.dense.size() + number;
    std::int64_t total = 0, most = 0;
    for (const std::vector<Column>& block : columns_) {
      for (const std::int64_t count : block[index].counts) {
        total += count;
        most = std::max(most, count);
      }
    }
    Tensor places(allocator_, tensorflow::DT_INT64, TensorShape({total, 2}));
    Tensor shape(allocator_, tensorflow::DT_INT64, TensorShape({2}));
    Tensor values(allocator_, TypeOfTensor(index, config_.sparse[number].dtype), TensorShape({total}));
    std::int64_t* place = Numbers(&places);
    std::int64_t record = 0, at = 0;
    for (const std::vector<Column>& block : columns_) {
      at += CopyValues(block[index], features_.BucketsOf(index), at, &values);
      for (const std::int64_t count : block[index].counts) {
        for (std::int64_t i = 0; i < count; ++i) {
          *place++ = record;
          *place++ = i;
        }
        ++record;
      }
    }
    Numbers(&shape)[0] = count_;
    Numbers(&shape)[1] = most;
    result_->sparse_indices[number] = places;
    result_->sparse_values[number] = values;
    result_->sparse_shapes[number] = shape;
  }

 private:
  bool IsHashed(std::size_t feature) const { return features_.BucketsOf(feature) != ExampleFeatures::kNotHashed; }

  tensorflow::DataType TypeOfTensor(std::size_t feature, tensorflow::DataType dtype) const {
    return IsHashed(feature) ? tensorflow::DT_INT64 : dtype;
  }

  bool ParseBlock(std::int64_t begin, std::int64_t end) {
    std::vector<Column>& columns = columns_[begin / block_];
    std::vector<std::vector<ByteRange>> strings(config_.dense.size());
    for (std::size_t i = 0; i < config_.dense.size(); ++i) {
      Tensor* const out = &result_->dense_values[i];
      const std::int64_t count = parser_.features()[i].count;
      if (config_.dense[i].dtype == tensorflow::DT_STRING) {
        strings[i].resize((end - begin) * count);
        columns[i].strings = strings[i].data();
      } else if (out->dtype() == tensorflow::DT_INT64) {
        columns[i].numbers = Numbers(out) + begin * count;
      } else {
        columns[i].floats = out->flat<float>().data() + begin * count;
      }
    }
    for (std::int64_t record = begin; record < end; ++record) {
      if (!parser_.Parse(records_[record], record - begin, &columns)) return false;
    }
    for (std::size_t i = 0; i < config_.dense.size(); ++i) {
      Tensor* const out = &result_->dense_values[i];
      const auto count = static_cast<std::int64_t>(strings[i].size());
      const std::int64_t first = begin * parser_.features()[i].count;
      if (IsHashed(i)) {
        HashStrings(strings[i].data(), count, features_.BucketsOf(i), out->flat<tensorflow::int64>().data() + first);
      } else if (out->dtype() == tensorflow::DT_STRING) {
        CopyStrings(strings[i].data(), count, out->flat<TensorString>().data() + first);
      }
      for (const std::int64_t record : columns[i].missing_in) CopyDefault(defaults_[i], begin + record, out);
    }
    return true;
  }

  // Copies the values of a block to position `at` of a tensor. Returns the number of copied values.
  static std::int64_t CopyValues(const Column& column, std::int64_t buckets, std::int64_t at, Tensor* values) {
    const auto count = static_cast<std::int64_t>(column.more_strings.size());
    if (buckets != ExampleFeatures::kNotHashed) {
      HashStrings(column.more_strings.data(), count, buckets, values->flat<tensorflow::int64>().data() + at);
      return count;
    }
    if (values->dtype() == tensorflow::DT_INT64) {
      std::copy(column.more_numbers.begin(), column.more_numbers.end(), Numbers(values) + at);
      return static_cast<std::int64_t>(column.more_numbers.size());
    }
    if (values->dtype() == tensorflow::DT_FLOAT) {
      std::copy(column.more_floats.begin(), column.more_floats.end(), values->flat<float>().data() + at);
      return static_cast<std::int64_t>(column.more_floats.size());
    }
    CopyStrings(column.more_strings.data(), count, values->flat<TensorString>().data() + at);
    return count;
  }

  const ExampleParser& parser_;
  const ExampleFeatures& features_;
  const tensorflow::example::FastParseExampleConfig& config_;
  const ByteRange* const records_;
  const std::int64_t count_;
  tensorflow::Allocator* const allocator_;
  const std::int64_t block_;
  std::vector<std::vector<Column>> columns_;  // by block and feature
  std::vector<Tensor> defaults_;              // default values of dense features
  tensorflow::example::Result* const result_;
  std::atomic<bool> unusual_{false};
};

}  // namespace

bool ParseCommonForm(const ShareWork& share, const ExampleParser& parser, const ExampleFeatures& features,
                     const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                     tensorflow::example::Result* result) {
  ExampleBatch batch(parser, features, records, allocator, result);
  share(static_cast<std::int64_t>(records.size()), batch.block(),
        [&batch](std::int64_t begin, std::int64_t end) { batch.Parse(begin, end); });
  if (batch.is_unusual()) return false;
  share(static_cast<std::int64_t>(features.config.sparse.size()), 1, [&batch](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) batch.Join(number);
  });
  return true;
}

Tensor Hashed(const Tensor& strings, std::int64_t buckets, tensorflow::Allocator* allocator) {
  Tensor hashed(allocator, tensorflow::DT_INT64, strings.shape());
  const auto values = strings.flat<TensorString>();
  for (std::int64_t i = 0; i < values.size(); ++i) {
    Numbers(&hashed)[i] = HashOf(values(i).data(), values(i).size(), buckets);
  }
  return hashed;
}

std::vector<WantedFeature> CommonFeatures(const tensorflow::example::FastParseExampleConfig& config) {
  std::vector<WantedFeature> features;
  features.reserve(config.dense.size() + config.sparse.size());
  std::set<std::string> names;
  for (const auto& dense : config.dense) {
    ValueType type;
    if (dense.variable_length || dense.elements_per_stride == 0 || !TypeOf(dense.dtype, &type)) return {};
    features.push_back({dense.feature_name, type, static_cast<std::int64_t>(dense.elements_per_stride),
                        dense.default_value.NumElements() == 0});
    names.insert(features.back().name);
  }
  for (const auto& sparse : config.sparse) {
    ValueType type;
    if (!TypeOf(sparse.dtype, &type)) return {};
    features.push_back({sparse.feature_name, type, WantedFeature::kAnyCount, false});
    names.insert(features.back().name);
  }
  return names.size() == features.size() ? features : std::vector<WantedFeature>();
}

}  // namespace ascpipe
