// Tensors that ParseExample returns, filled from records in the common form.
#ifndef ASCPIPE_BRIDGE_EXAMPLE_COLUMNS_H_
#define ASCPIPE_BRIDGE_EXAMPLE_COLUMNS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "bridge/compatibility.h"
#include "core/blocks.h"
#include "input/example_parser.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace ascpipe {

// Features of a batch of records. `config` is the argument of TensorFlow's parser.
struct ExampleFeatures {
  // Special values in `buckets`.
  static constexpr std::int64_t kNotHashed = -1;
  static constexpr std::int64_t kFingerprint = 0;

  tensorflow::example::FastParseExampleConfig config;
  // Number of hash buckets of each feature (config.dense, then config.sparse). `buckets` is empty if no feature is
  // hashed.
  std::vector<std::int64_t> buckets;

  std::int64_t BucketsOf(std::size_t feature) const { return buckets.empty() ? kNotHashed : buckets[feature]; }
};

// Calls work(begin, end) for all blocks of [0, total), possibly on several threads.
using ShareWork = std::function<void(std::int64_t total, std::int64_t block, const Blocks::Work& work)>;

// Parses a batch of records. `parser` must read all features that CommonFeatures(features.config) returns. There must
// be at least one feature. Tensors are allocated by `allocator`. If a record is not in the common form, returns false
// and leaves *result undefined.
bool ParseCommonForm(const ShareWork& share, const ExampleParser& parser, const ExampleFeatures& features,
                     const std::vector<ByteRange>& records, tensorflow::Allocator* allocator,
                     tensorflow::example::Result* result);

// Returns the features that `config` reads, or an empty vector if ParseCommonForm does not support `config`.
std::vector<WantedFeature> CommonFeatures(const tensorflow::example::FastParseExampleConfig& config);

// Copies the default value of a feature to a record.
void CopyDefault(const tensorflow::Tensor& value, std::int64_t record, tensorflow::Tensor* out);

void CopyStrings(const ByteRange* strings, std::int64_t count, TensorString* out);

// Hashes strings to ids.
//
// The results are equal to tf.strings.to_hash_bucket_fast(strings, buckets): FarmHash's Fingerprint64 modulo the number
// of buckets. If `buckets` is kFingerprint, the result is the fingerprint without its highest bit.
void HashStrings(const ByteRange* strings, std::int64_t count, std::int64_t buckets, tensorflow::int64* out);

// Hashes the strings of a tensor. Returns an int64 tensor with the shape of `strings`.
tensorflow::Tensor Hashed(const tensorflow::Tensor& strings, std::int64_t buckets, tensorflow::Allocator* allocator);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_EXAMPLE_COLUMNS_H_
