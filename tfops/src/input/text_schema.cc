#include "input/text_schema.h"

#include <utility>

#include "input/csv_numbers.h"

namespace ascpipe {
namespace {

bool IsReal(ByteRange text) {
  float value;
  const char* const end = text.data + text.size;
  return ShortFloat(text.data, end, &value) == end || ParseFloat(text, false, &value);
}

}  // namespace

CsvType FieldSummary::type() const {
  if (records == 0) return CsvType::kString;
  if (is_whole) return CsvType::kInt64;
  if (is_hex) return CsvType::kHex;
  return is_real ? CsvType::kFloat : CsvType::kString;
}

// Creates a parser for the fields of the first record.
bool TextSchema::Begin(ByteRange record, std::string* error) {
  CsvOptions options;
  options.delimiter = static_cast<char>(format_.delimiter);
  options.use_quotes = format_.use_quotes != 0;
  CoreStatus status = CsvParser::Make(options, &parser_);
  std::vector<std::string> fields;
  if (status.ok() && parser_->FindFields(record, &fields, error)) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      options.columns.push_back({static_cast<std::int64_t>(i), CsvType::kString, true, 0, 0.0, ""});
    }
    fields_.resize(fields.size());
    texts_.resize(fields.size());
    for (ByteRange& text : texts_) values_.arrays.push_back(&text);
    status = CsvParser::Make(std::move(options), &parser_);
  }
  if (!status.ok()) *error = status.text();
  if (!error->empty()) parser_.reset();
  return error->empty();
}

bool TextSchema::Add(ByteRange record, std::int64_t number, std::string* error) {
  error->clear();
  if (parser_ == nullptr && !Begin(record, error)) return false;
  values_.unescaped.clear();
  // The arrays have one element, so the record index passed to the parser is always 0.
  if (!parser_->Parse(record, 0, &values_, error)) {
    const std::string zero = "in record 0", text = Text("in record ", number);
    const std::size_t at = error->rfind(zero);
    if (at != std::string::npos) error->replace(at, zero.size(), text);
    return false;
  }
  ++records_;
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const ByteRange text = texts_[i];
    if (text.size == 0) continue;
    FieldSummary& field = fields_[i];
    ++field.records;
    std::int64_t whole;
    field.is_whole = field.is_whole && ParseInt64(text, &whole);
    field.is_hex = field.is_hex && text.size == 8 && ParseHex(text, &whole);
    field.is_real = field.is_real && IsReal(text);
  }
  return true;
}

}  // namespace ascpipe
