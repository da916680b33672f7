// Parser of tf.train.Example records in their common form.
//
// The common form is what TensorFlow's own writers produce: each feature once, lists of numbers packed, no unknown
// fields. The parser reports every other record as unusual, without a reason. TensorFlow's parser then
// parses the batch again. Unusual records therefore have TensorFlow's values, and invalid records TensorFlow's errors.
#ifndef ASCPIPE_INPUT_EXAMPLE_PARSER_H_
#define ASCPIPE_INPUT_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "input/feature_index.h"
#include "input/wire.h"

namespace ascpipe {

// Types of values. The numbers are the field numbers of the lists in tf.train.Feature.
enum class ValueType : std::uint8_t { kBytes = 1, kFloat = 2, kInt64 = 3 };

// Feature that a program reads.
struct WantedFeature {
  static constexpr std::int64_t kAnyCount = -1;

  std::string name;
  ValueType type;
  std::int64_t count;  // number of values in each record, or kAnyCount
  bool is_required;    // whether a record without the feature is unusual
};

// Values of a feature in consecutive records, which are numbered from 0. Only the array for the type of the feature is
// used. The arrays of a feature with a fixed count belong to the caller: values of record i begin at i * count. The
// vectors of a feature with any count grow with each record.
struct Column {
  std::int64_t* numbers = nullptr;
  float* floats = nullptr;
  ByteRange* strings = nullptr;
  std::vector<std::int64_t> more_numbers;
  std::vector<float> more_floats;
  std::vector<ByteRange> more_strings;
  std::vector<std::int64_t> counts;      // number of values of each record, for any count
  std::vector<std::int64_t> missing_in;  // records without the feature, for a fixed count; ascending
  std::int64_t last_record = -1;         // last record that has the feature
};

class ExampleParser {
 public:
  // All names must be distinct. Features with a fixed count have a count of at least 1.
  explicit ExampleParser(std::vector<WantedFeature> features);

  const std::vector<WantedFeature>& features() const { return features_; }
  bool Reads(const std::vector<WantedFeature>& features) const;

  // Parses a record and appends its values to `columns`, which has one element per feature. `record` is the number of
  // the record, and is larger than in the previous call. Returns false if the record is unusual. The values of the
  // record are then undefined.
  bool Parse(ByteRange bytes, std::int64_t record, std::vector<Column>* columns) const;

 private:
  // Form of the features in most records: a list with one field of packed numbers. Each length has one byte, and the
  // number of values is fixed.
  struct ShortForm {
    std::uint64_t head;       // the bytes before the values, of a feature with 0 bytes
    std::size_t float_bytes;  // bytes of the values of floats; 0 if the feature has one int64
  };

  static ShortForm ShortFormOf(const WantedFeature& feature);

  // Parses an entry if all its lengths have one byte, and its feature is not wanted or has the short form. Returns the
  // end of the entry, or null for all other entries. `found` counts the wanted features.
  const char* ParseShortEntry(const char* at, const char* end, std::int64_t record, std::vector<Column>* columns,
                              std::size_t* found) const;
  bool ParseFeature(const WantedFeature& wanted, ByteRange feature, std::int64_t record, Column* column) const;

  std::vector<WantedFeature> features_;
  std::vector<ShortForm> short_forms_;  // of each feature
  FeatureIndex index_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_EXAMPLE_PARSER_H_
