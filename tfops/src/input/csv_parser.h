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

// Types of values, and of their arrays: int32, int64, float, double, ByteRange, int64.
enum class CsvType : int { kInt32 = 0, kInt64 = 1, kFloat = 2, kDouble = 3, kString = 4, kHex = 5 };

struct CsvColumn {
  std::int64_t field;  // number of the field in the record, counted from 0
  CsvType type;
  bool has_default;  // whether a field may be empty or na_value
  // Default of a type of integers, of floats, and of strings.
  std::int64_t whole;
  double real;
  std::string text;
};

struct CsvOptions {
  char delimiter = ',';
  bool use_quotes = true;
  std::string na_value;  // text of a field without a value, like an empty field
  // True if records may have more fields than the columns. Otherwise, column i is field i.
  bool selects = false;
  std::vector<CsvColumn> columns;  // fields are strictly increasing
};

// Values of records. The arrays belong to the caller, one per column. Strings refer to the bytes of the records, to the
// parser, or to this object.
struct CsvValues {
  std::vector<void*> arrays;
  std::deque<std::string> unescaped;  // strings that had escaped quotes
};

// Const methods may be called by several threads.
class CsvParser {
 public:
  // Fails with kE332 if the options are not allowed.
  static CoreStatus Make(CsvOptions options, std::unique_ptr<CsvParser>* parser);

  const std::vector<CsvColumn>& columns() const { return options_.columns; }

  // Parses a record, and writes its values to element `place` of the arrays. If the record is invalid, returns false
  // and sets `error` to the text of tf.io.decode_csv for record `place` of a batch; the values are then undefined.
  //
  // Differences to decode_csv: it does not have the type kHex, and its errors may contain bytes that are not UTF-8.
  bool Parse(ByteRange record, std::int64_t place, CsvValues* values, std::string* error) const;

  // Finds the texts of the fields of the columns, or of all fields of the record if the options do not select fields.
  bool FindFields(ByteRange record, std::vector<std::string>* fields, std::string* error) const;

 private:
  static constexpr std::size_t kUnread = ~std::size_t{0};

  explicit CsvParser(CsvOptions options);

  // Common records in one pass. Return false if the record needs ParseExactly; the values are then undefined.
  bool ParseCommon(ByteRange record, std::int64_t place, CsvValues* values) const;
  const char* ParseField(const char* at, const char* end, std::size_t column, std::int64_t place,
                         CsvValues* values) const;
  const char* ParseShort(const char* at, const char* end, std::size_t column, std::int64_t place,
                         CsvValues* values) const;
  const char* FindSpecial(const char* at, const char* end) const;
  const char* FindField(const char* at, const char* end, ByteRange* text, CsvValues* values) const;

  // All records, and the errors. Fields are found before the first value is converted, as in decode_csv.
  bool ParseExactly(ByteRange record, std::int64_t place, CsvValues* values, std::string* error) const;
  bool FindQuoted(ByteRange record, std::size_t* at, std::string* field, std::string* error) const;

  bool IsMissing(ByteRange text) const;
  bool IsEnd(const char* at, const char* end) const { return at == end || *at == options_.delimiter; }
  bool Convert(ByteRange text, std::size_t column, std::int64_t place, CsvValues* values) const;
  bool StoreDefault(std::size_t column, std::int64_t place, CsvValues* values) const;

  const CsvOptions options_;
  const char quote_;                    // the delimiter if quotes have no meaning
  std::vector<std::size_t> column_of_;  // of each field up to the last column, or kUnread
  bool is_special_[256] = {};           // bytes that end an unquoted field, or make the record invalid
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_CSV_PARSER_H_
