// Writer of tf.train.Example records in the form that TensorFlow's writers produce.
#ifndef ASCPIPE_INPUT_EXAMPLE_WRITER_H_
#define ASCPIPE_INPUT_EXAMPLE_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "input/csv_parser.h"

namespace ascpipe {

// Values of a feature in several records, one per record.
struct WrittenColumn {
  std::string name;
  CsvType type;                    // numbers are written as int64 or float32
  const void* values;              // array of this type; strings are ByteRange
  const std::uint8_t* has_values;  // by record: 0 if it does not have the feature; null: all records have it
};

// Appends the records to `out`, with the lengths and checksums of a TFRecord file.
void WriteExamples(const std::vector<WrittenColumn>& columns, std::int64_t records, std::string* out);

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_EXAMPLE_WRITER_H_
