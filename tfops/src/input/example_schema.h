// Determines the types and the numbers of values of the features in tf.train.Example records.
#ifndef ASCPIPE_INPUT_EXAMPLE_SCHEMA_H_
#define ASCPIPE_INPUT_EXAMPLE_SCHEMA_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "input/example_parser.h"
#include "input/feature_index.h"
#include "input/wire.h"

namespace ascpipe {

struct FeatureSummary {
  std::string name;
  int type = 0;                      // a ValueType; 0 if the feature has no list of values in any record
  std::int64_t records = 0;          // number of records that have the feature
  std::int64_t least = 0, most = 0;  // number of values in these records
  std::int64_t first = -1;           // first record with this type
  std::int64_t other = -1;           // first record with another type; -1 if there is none
};

// Collects facts about records. Lists of numbers may be packed or unpacked. If a record has a feature twice, only the
// last occurrence counts, as in TensorFlow.
class ExampleSchema {
 public:
  // Limits the memory. A file with more than kMostFeatures features is not considered training data.
  static constexpr std::size_t kMostFeatures = 100000;

  // Adds a record. `record` must be larger than in the previous call. If the bytes are not a tf.train.Example or have
  // unknown fields, returns false and does not count the record.
  bool Add(ByteRange bytes, std::int64_t record);

  std::int64_t records() const { return records_; }

  // Returns the features in the order of their first occurrence. The summary of a feature has 0 records if Add did not
  // count any record with the feature.
  const std::vector<FeatureSummary>& features() const { return features_; }

 private:
  struct Occurrence {
    std::size_t feature;
    int type;
    std::int64_t count;
  };

  // The last record that has a feature, and the position of the feature in found_ for this record.
  struct Last {
    std::int64_t record;
    std::size_t position;
  };

  bool AddEntry(ByteRange entry, std::int64_t record);
  bool FindFeature(ByteRange name, std::size_t* feature);

  std::int64_t records_ = 0;
  std::vector<FeatureSummary> features_;
  std::vector<Last> last_;                                // by feature
  FeatureIndex index_{std::vector<std::string>()};        // index of most features; three times as fast as numbers_
  std::size_t misses_ = 0;                                // number of failed lookups in index_ since it was built
  std::unordered_map<std::string, std::size_t> numbers_;  // name -> position in features_
  std::vector<Occurrence> found_;                         // features of the current record
  std::string name_;                                      // its memory is reused for each record
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_EXAMPLE_SCHEMA_H_
