// Parser of tf.train.Example records in the common form.
//
// TensorFlow's own writers produce the common form: each feature occurs once, lists of numbers are packed, and there
// are no unknown fields. The parser reports a record that does not have the common form as unusual, without a reason.
// If a batch contains an unusual record, TensorFlow's parser parses the whole batch again. Therefore the values of
// unusual records and the errors of invalid records are the same as in TensorFlow.
#ifndef ASCPIPE_INPUT_EXAMPLE_PARSER_H_
#define ASCPIPE_INPUT_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "input/feature_index.h"
#include "input/wire.h"

namespace ascpipe {

// Types of values. The constants are the field numbers of the lists in tf.train.Feature.
enum class ValueType : std::uint8_t { kBytes = 1, kFloat = 2, kInt64 = 3 };

// A feature that a program reads.
struct WantedFeature {
  static constexpr std::int64_t kAnyCount = -1;

  std::string name;
  ValueType type;
  std::int64_t count;  // number of values in each record, or kAnyCount
  bool is_required;    // true if a record without the feature is unusual
};

// Values of a feature in consecutive records, which are numbered from 0. Only the array for the type of the feature is
// used. If the count is fixed, the caller owns the arrays, and the values of record i begin at i * count. For
// kAnyCount, the vectors grow with each record.
struct Column {
  std::int64_t* numbers = nullptr;
  float* floats = nullptr;
  ByteRange* strings = nullptr;
  std::vector<std::int64_t> more_numbers;
  std::vector<float> more_floats;
  std::vector<ByteRange> more_strings;
  std::vector<std::int64_t> counts;      // for kAnyCount: number of values of each record
  std::vector<std::int64_t> missing_in;  // for a fixed count: records without the feature, in ascending order
  std::int64_t last_record = -1;         // last record that has the feature
};

class ExampleParser {
 public:
  // All names must be distinct. A fixed count must be at least 1.
  explicit ExampleParser(std::vector<WantedFeature> features);

  const std::vector<WantedFeature>& features() const { return features_; }
  bool Reads(const std::vector<WantedFeature>& features) const;

  // Parses a record and appends its values to `columns`, which has one element per feature. `record` is the number of
  // the record, which must be larger than in the previous call. Returns false if the record is unusual. The values of
  // an unusual record are undefined.
  bool Parse(ByteRange bytes, std::int64_t record, std::vector<Column>* columns) const;

 private:
  // Encoding of the features in most records: a list with one field of packed numbers. Each length has one byte, and
  // the number of values is fixed.
  struct ShortForm {
    std::uint64_t head;       // bytes before the values, with the lengths of a feature whose values have 0 bytes
    std::size_t float_bytes;  // size of the float values in bytes; 0 if the feature has one int64
  };

  static ShortForm ShortFormOf(const WantedFeature& feature);

  // Parses an entry with lengths of one byte if its feature is not wanted or has the short form. Returns the end of the
  // entry, or null if the entry was not parsed. `found` counts the wanted features.
  const char* ParseShortEntry(const char* at, const char* end, std::int64_t record, std::vector<Column>* columns,
                              std::size_t* found) const;
  bool ParseFeature(const WantedFeature& wanted, ByteRange feature, std::int64_t record, Column* column) const;

  std::vector<WantedFeature> features_;
  std::vector<ShortForm> short_forms_;  // by feature
  FeatureIndex index_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_EXAMPLE_PARSER_H_
