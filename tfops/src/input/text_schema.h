// Infers the number and the types of the fields of text records.
#ifndef ASCPIPE_INPUT_TEXT_SCHEMA_H_
#define ASCPIPE_INPUT_TEXT_SCHEMA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "input/csv_parser.h"
#include "input/record_reader.h"
#include "input/wire.h"

namespace ascpipe {

struct FieldSummary {
  std::int64_t records = 0;  // number of records in which the field is not empty
  // Each member below is true if all non-empty values of the field have the form in the member's comment.
  bool is_whole = true;  // a decimal int64
  bool is_hex = true;    // 8 hexadecimal digits
  bool is_real = true;   // a float

  // Returns the narrowest type that fits all values: kInt64, kHex, kFloat or kString. Returns kString for a field
  // without values.
  CsvType type() const;
};

// Collects facts about records. The first valid record determines the number of fields.
class TextSchema {
 public:
  explicit TextSchema(const RecordFormat& format) : format_(format) {}

  // Adds a record. If the record is invalid or has a different number of fields than the first valid record, returns
  // false, sets `error`, and does not count the record.
  bool Add(ByteRange record, std::int64_t number, std::string* error);

  std::int64_t records() const { return records_; }
  const std::vector<FieldSummary>& fields() const { return fields_; }

 private:
  bool Begin(ByteRange record, std::string* error);

  const RecordFormat format_;
  std::unique_ptr<CsvParser> parser_;  // parser of strings; null before the first record
  std::vector<FieldSummary> fields_;
  std::vector<ByteRange> texts_;  // fields of the current record
  CsvValues values_;
  std::int64_t records_ = 0;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_TEXT_SCHEMA_H_
