// Parser of text records (CSV, TSV) with the values and errors of tf.io.decode_csv.
#ifndef ASCPIPE_INPUT_CSV_PARSER_H_
#define ASCPIPE_INPUT_CSV_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "input/wire.h"

namespace ascpipe {

// Types of the values of a column. The values of kInt32 to kHex are stored as int32, int64, float, double, ByteRange
// and int64, in this order.
enum class CsvType : int { kInt32 = 0, kInt64 = 1, kFloat = 2, kDouble = 3, kString = 4, kHex = 5 };

struct CsvColumn {
  std::int64_t field;  // number of the field in the record, counted from 0
  CsvType type;
  bool has_default;  // true if a field may be empty or na_value
  // Default value of a column. The type of the column determines whether `whole`, `real` or `text` is used.
  std::int64_t whole;
  double real;
  std::string text;
};

struct CsvOptions {
  char delimiter = ',';
  bool use_quotes = true;
  std::string na_value;  // a field with this text has no value, like an empty field
  // True if records may have fields without a column, and false if column i is field i.
  bool selects = false;
  // True if a negative hexadecimal number becomes positive when it has more bits than the significand of its type, as
  // in the double-conversion library of TensorFlow 1.15.
  bool loses_signs = false;
  std::vector<CsvColumn> columns;  // in strictly ascending order of `field`
};

// Values of records. There is one array per column, and the caller owns the arrays. Strings point to bytes of the
// records, of the parser, or of the CsvValues object.
struct CsvValues {
  std::vector<void*> arrays;
  std::deque<std::string> unescaped;  // strings with escaped quotes, after the quotes were unescaped
};

// Const methods are thread-safe.
class CsvParser {
 public:
  // Returns kE332 if the options are invalid.
  static CoreStatus Make(CsvOptions options, std::unique_ptr<CsvParser>* parser);

  const std::vector<CsvColumn>& columns() const { return options_.columns; }

  // Parses a record, and writes its values to element `place` of the arrays. If the record is invalid, returns false
  // and sets `error` to the error message of tf.io.decode_csv for record `place` of a batch. The values are then
  // undefined.
  //
  // There are two differences from decode_csv: decode_csv does not support the type kHex, and its errors may contain
  // bytes that are not UTF-8.
  bool Parse(ByteRange record, std::int64_t place, CsvValues* values, std::string* error) const;

  // Finds the texts of the columns' fields. If the options do not select fields, finds the texts of all fields of the
  // record.
  bool FindFields(ByteRange record, std::vector<std::string>* fields, std::string* error) const;

 private:
  static constexpr std::size_t kUnread = ~std::size_t{0};

  explicit CsvParser(CsvOptions options);

  // Parses a common record in one pass. Returns false if the record needs ParseExactly. The values are then undefined.
  bool ParseCommon(ByteRange record, std::int64_t place, CsvValues* values) const;
  const char* ParseField(const char* at, const char* end, std::size_t column, std::int64_t place,
                         CsvValues* values) const;
  const char* ParseShort(const char* at, const char* end, std::size_t column, std::int64_t place,
                         CsvValues* values) const;
  const char* FindSpecial(const char* at, const char* end) const;
  const char* FindField(const char* at, const char* end, ByteRange* text, CsvValues* values) const;

  // Parses any record, and returns errors. All fields are found before the first value is converted, as in decode_csv.
  bool ParseExactly(ByteRange record, std::int64_t place, CsvValues* values, std::string* error) const;
  bool FindQuoted(ByteRange record, std::size_t* at, std::string* field, std::string* error) const;

  bool IsMissing(ByteRange text) const;
  bool IsEnd(const char* at, const char* end) const { return at == end || *at == options_.delimiter; }
  bool Convert(ByteRange text, std::size_t column, std::int64_t place, CsvValues* values) const;
  bool StoreDefault(std::size_t column, std::int64_t place, CsvValues* values) const;

  const CsvOptions options_;
  const char quote_;                    // equal to the delimiter if quotes have no meaning
  std::vector<std::size_t> column_of_;  // column of each field; kUnread for a field without a column
  bool is_special_[256] = {};           // bytes that end an unquoted field, or make the record invalid
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_CSV_PARSER_H_
