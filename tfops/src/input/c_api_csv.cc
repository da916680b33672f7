// C interface of the fields of text records. See c_api.cc.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/calls.gen.h"
#include "core/core_status.h"
#include "core/error_codes.gen.h"
#include "input/c_api.h"
#include "input/csv_parser.h"
#include "input/example_writer.h"
#include "input/record_reader.h"
#include "input/text_schema.h"

namespace {

using ascpipe::ByteRange;
using ascpipe::CoreStatus;
using ascpipe::CsvColumnArguments;
using ascpipe::CsvOptions;
using ascpipe::CsvParser;
using ascpipe::CsvType;
using ascpipe::CsvValues;
using ascpipe::ExampleColumnArguments;
using ascpipe::FieldSummary;
using ascpipe::RecordFormat;
using ascpipe::RecordPlace;
using ascpipe::RecordReader;
using ascpipe::TextSchema;
using ascpipe::WrittenColumn;

// A parser, and the memory of the strings that its last call returned.
struct CsvHandle {
  std::unique_ptr<CsvParser> parser;
  CsvValues values;
};

}  // namespace

// Creates a parser. `selects` is 1 if records may have fields without a column. `loses_signs` is 1 to parse hexadecimal
// numbers like TensorFlow 1.15. `na_value` is NUL-terminated.
ASC_EXPORT int asc_data_csv_new(const RecordFormat* format, const char* na_value, int selects, int loses_signs,
                                const CsvColumnArguments* columns, std::int64_t count, CsvHandle** handle, char* err,
                                int err_bytes) {
  CsvOptions options;
  options.delimiter = static_cast<char>(format->delimiter);
  options.use_quotes = format->use_quotes != 0;
  options.na_value = na_value;
  options.selects = selects != 0;
  options.loses_signs = loses_signs != 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const CsvColumnArguments& of = columns[i];
    const std::string text = of.text == nullptr ? "" : std::string(of.text, static_cast<std::size_t>(of.text_bytes));
    options.columns.push_back({of.field, static_cast<CsvType>(of.type), of.has_default != 0, of.whole, of.real, text});
  }
  std::unique_ptr<CsvHandle> made(new CsvHandle);
  const CoreStatus status = CsvParser::Make(std::move(options), &made->parser);
  return ascpipe::Give(status, std::move(made), handle, err, err_bytes);
}

ASC_EXPORT void asc_data_csv_free(CsvHandle* handle) { delete handle; }

// Parses `count` records into one array of `count` elements per column. CsvType (input/csv_parser.h) explains the types
// of the elements. Strings are valid until the next call. Returns the number of valid records before the first invalid
// record. `err` receives the error of the first invalid record.
ASC_EXPORT std::int64_t asc_data_csv_parse(CsvHandle* handle, const ByteRange* records, std::int64_t count,
                                           void* const* arrays, char* err, int err_bytes) {
  handle->values.arrays.assign(arrays, arrays + handle->parser->columns().size());
  handle->values.unescaped.clear();
  std::string error;
  std::int64_t parsed = 0;
  while (parsed < count && handle->parser->Parse(records[parsed], parsed, &handle->values, &error)) ++parsed;
  ascpipe::WriteText(error, err, err_bytes);
  return parsed;
}

// Returns records as tf.train.Example messages, with the lengths and checksums of a TFRecord file. The bytes are valid
// until the thread calls asc_data_examples again.
ASC_EXPORT const char* asc_data_examples(const ExampleColumnArguments* columns, std::int64_t count,
                                         std::int64_t records, std::int64_t* size) {
  static thread_local std::string written;
  std::vector<WrittenColumn> given;
  for (std::int64_t i = 0; i < count; ++i) {
    const ExampleColumnArguments& of = columns[i];
    given.push_back({std::string(of.name, static_cast<std::size_t>(of.name_bytes)), static_cast<CsvType>(of.type),
                     of.values, of.has_value});
  }
  written.clear();
  ascpipe::WriteExamples(given, records, &written);
  *size = static_cast<std::int64_t>(written.size());
  return written.data();
}

ASC_EXPORT TextSchema* asc_data_text_schema_new(const RecordFormat* format) { return new TextSchema(*format); }

ASC_EXPORT void asc_data_text_schema_free(TextSchema* schema) { delete schema; }

// Returns the number of fields. For the first `count` fields, writes the number of records in which the field is not
// empty, and the CsvType of its values.
ASC_EXPORT std::int64_t asc_data_text_schema_fields(const TextSchema* schema, std::int64_t count, std::int64_t* facts) {
  const auto all = static_cast<std::int64_t>(schema->fields().size());
  for (std::int64_t i = 0; i < std::min(all, count); ++i) {
    const FieldSummary& field = schema->fields()[static_cast<std::size_t>(i)];
    facts[2 * i] = field.records;
    facts[2 * i + 1] = static_cast<std::int64_t>(field.type());
  }
  return all;
}

// Adds at most *records records to `schema`, until at least `bytes` bytes were read. Subtracts the number of valid
// records from *records. Returns an error at the first invalid record. After an error, the next call continues with the
// record after the invalid record. *position is the offset of the next record. At the end of the file, or if the rest
// of the file cannot be read, sets *is_end to 1.
ASC_EXPORT int asc_data_text_check(RecordReader* file, TextSchema* schema, std::int64_t bytes, std::int64_t* records,
                                   std::int64_t* position, int* is_end, char* err, int err_bytes) {
  bool ended = false;
  CoreStatus status;
  const std::int64_t until = file->position() + bytes;
  while (status.ok() && !ended && *records > 0 && file->position() < until) {
    RecordPlace place;
    ByteRange data;
    std::string error;
    status = file->Next(&place, &data, &ended);
    ended = ended || !status.ok();
    if (ended) continue;
    if (schema->Add(data, place.number, &error)) {
      --*records;
    } else {
      status = ascpipe::Error(ascpipe::kE330, file->file().path(), ": record ", place.number, " at byte ", place.offset,
                              " is invalid: ", error, ". Correct the record");
    }
  }
  *is_end = ended ? 1 : 0;
  *position = file->position();
  return ascpipe::Answer(status, err, err_bytes);
}
