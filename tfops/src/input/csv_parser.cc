#include "input/csv_parser.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstring>
#include <utility>

#include "core/error_codes.gen.h"
#include "input/csv_numbers.h"

namespace ascpipe {
namespace {

constexpr std::int64_t kMostFields = 100000;  // limits the memory of a parser

template <typename Value>
void Store(void* array, std::int64_t place, Value value) {
  static_cast<Value*>(array)[place] = value;
}

CoreStatus Check(const CsvOptions& options) {
  const char delimiter = options.delimiter;
  if (delimiter == '"' || delimiter == '\n' || delimiter == '\r') {
    return Error(kE332, "The delimiter of fields is the byte ", static_cast<int>(delimiter),
                 ". Nothing was read. Pass a byte that is neither a quote nor the end of a line");
  }
  std::int64_t least = 0;
  for (const CsvColumn& column : options.columns) {
    const bool is_expected = options.selects ? column.field >= least : column.field == least;
    if (!is_expected || column.field >= kMostFields) {
      return Error(kE332, "A column reads field ", column.field, " and follows a column that reads field ", least - 1,
                   ". Nothing was read. Pass fields in strictly increasing order, less than ", kMostFields);
    }
    least = column.field + 1;
  }
  return CoreStatus();
}

}  // namespace

constexpr std::size_t CsvParser::kUnread;

CoreStatus CsvParser::Make(CsvOptions options, std::unique_ptr<CsvParser>* parser) {
  const CoreStatus status = Check(options);
  if (status.ok()) parser->reset(new CsvParser(std::move(options)));
  return status;
}

CsvParser::CsvParser(CsvOptions options)
    : options_(std::move(options)), quote_(options_.use_quotes ? '"' : options_.delimiter) {
  for (std::size_t i = 0; i < options_.columns.size(); ++i) {
    column_of_.resize(static_cast<std::size_t>(options_.columns[i].field), kUnread);
    column_of_.push_back(i);
  }
  for (const char byte : {options_.delimiter, '\n', '\r'}) is_special_[static_cast<unsigned char>(byte)] = true;
  is_special_[static_cast<unsigned char>('"')] = options_.use_quotes;
}

bool CsvParser::Parse(ByteRange record, std::int64_t place, CsvValues* values, std::string* error) const {
  return ParseCommon(record, place, values) || ParseExactly(record, place, values, error);
}

bool CsvParser::ParseCommon(ByteRange record, std::int64_t place, CsvValues* values) const {
  if (record.size == 0) return false;
  const char* at = record.data;
  const char* const end = at + record.size;
  for (const std::size_t column : column_of_) {
    if (at == nullptr) return false;  // the record has fewer fields
    if (column == kUnread) {
      ByteRange text;
      at = FindField(at, end, &text, values);
    } else {
      at = ParseField(at, end, column, place, values);
    }
    if (at == nullptr) return false;
    at = at == end ? nullptr : at + 1;  // a delimiter at the end is followed by an empty field
  }
  return options_.selects || at == nullptr;
}

// Parses a field. Returns the end of the field, which is the delimiter or the end of the record. Returns null if the
// field needs ParseExactly.
const char* CsvParser::ParseField(const char* at, const char* end, std::size_t column, std::int64_t place,
                                  CsvValues* values) const {
  if (IsEnd(at, end)) return StoreDefault(column, place, values) ? at : nullptr;
  const char* const next = ParseShort(at, end, column, place, values);
  if (next != nullptr && IsEnd(next, end) &&
      (options_.na_value.empty() || !IsMissing({at, static_cast<std::size_t>(next - at)}))) {
    return next;
  }
  ByteRange text;
  const char* const after = FindField(at, end, &text, values);
  if (after == nullptr) return nullptr;
  const bool is_ok = IsMissing(text) ? StoreDefault(column, place, values) : Convert(text, column, place, values);
  return is_ok ? after : nullptr;
}

// Parses a number in a common form. Returns a pointer to the first byte after the number, or null if the number has an
// unusual form.
const char* CsvParser::ParseShort(const char* at, const char* end, std::size_t column, std::int64_t place,
                                  CsvValues* values) const {
  void* const array = values->arrays[column];
  switch (options_.columns[column].type) {
    case CsvType::kInt32: {
      std::int64_t value = 0;
      at = ShortInteger<9>(at, end, &value);
      Store(array, place, static_cast<std::int32_t>(value));
      return at;
    }
    case CsvType::kInt64:
      return ShortInteger<18>(at, end, static_cast<std::int64_t*>(array) + place);
    case CsvType::kFloat:
      return ShortFloat(at, end, static_cast<float*>(array) + place);
    case CsvType::kDouble:
      return ShortDouble(at, end, static_cast<double*>(array) + place);
    case CsvType::kString:
      return nullptr;
    case CsvType::kHex:
      return ShortHex(at, end, static_cast<std::int64_t*>(array) + place);
  }
  return nullptr;
}

// Returns a pointer to the first special byte (delimiter, quote or line end), or `end` if there is none.
const char* CsvParser::FindSpecial(const char* at, const char* end) const {
#ifdef __SSE2__
  const __m128i delimiter = _mm_set1_epi8(options_.delimiter), quote = _mm_set1_epi8(quote_);
  const __m128i newline = _mm_set1_epi8('\n'), cr = _mm_set1_epi8('\r');
  for (; end - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(bytes, delimiter), _mm_cmpeq_epi8(bytes, quote));
    const __m128i lines = _mm_or_si128(_mm_cmpeq_epi8(bytes, newline), _mm_cmpeq_epi8(bytes, cr));
    const int found = _mm_movemask_epi8(_mm_or_si128(ends, lines));
    if (found != 0) return at + __builtin_ctz(static_cast<unsigned>(found));
  }
#endif
  while (at != end && !is_special_[static_cast<unsigned char>(*at)]) ++at;
  return at;
}

// Finds the text of a field, and returns the end of the field. Returns null if the field needs ParseExactly.
const char* CsvParser::FindField(const char* at, const char* end, ByteRange* text, CsvValues* values) const {
  const char* const begin = at;
  at = FindSpecial(at, end);
  *text = {begin, static_cast<std::size_t>(at - begin)};
  if (IsEnd(at, end)) return at;
  if (at != begin || *at != '"') return nullptr;
  std::string* unescaped = nullptr;
  const char* from = ++at;
  for (;;) {
    at = static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end - at)));
    if (at == nullptr) return nullptr;
    if (IsEnd(at + 1, end)) break;
    if (at[1] != '"') return nullptr;
    if (unescaped == nullptr) {
      values->unescaped.emplace_back();
      unescaped = &values->unescaped.back();
    }
    unescaped->append(from, at + 1);
    from = at += 2;
  }
  *text = {from, static_cast<std::size_t>(at - from)};
  if (unescaped != nullptr) {
    unescaped->append(from, at);
    *text = {unescaped->data(), unescaped->size()};
  }
  return at + 1;
}

bool CsvParser::IsMissing(ByteRange text) const {
  const std::string& na = options_.na_value;
  return text.size == 0 || (text.size == na.size() && std::memcmp(text.data, na.data(), na.size()) == 0);
}

bool CsvParser::Convert(ByteRange text, std::size_t column, std::int64_t place, CsvValues* values) const {
  void* const array = values->arrays[column];
  switch (options_.columns[column].type) {
    case CsvType::kInt32:
      return ParseInt32(text, static_cast<std::int32_t*>(array) + place);
    case CsvType::kInt64:
      return ParseInt64(text, static_cast<std::int64_t*>(array) + place);
    case CsvType::kFloat:
      return ParseFloat(text, options_.loses_signs, static_cast<float*>(array) + place);
    case CsvType::kDouble:
      return ParseDouble(text, options_.loses_signs, static_cast<double*>(array) + place);
    case CsvType::kString:
      Store(array, place, text);
      return true;
    case CsvType::kHex:
      return ParseHex(text, static_cast<std::int64_t*>(array) + place);
  }
  return false;
}

bool CsvParser::StoreDefault(std::size_t column, std::int64_t place, CsvValues* values) const {
  const CsvColumn& of = options_.columns[column];
  void* const array = values->arrays[column];
  switch (of.type) {
    case CsvType::kInt32:
      Store(array, place, static_cast<std::int32_t>(of.whole));
      break;
    case CsvType::kInt64:
    case CsvType::kHex:
      Store(array, place, of.whole);
      break;
    case CsvType::kFloat:
      Store(array, place, static_cast<float>(of.real));
      break;
    case CsvType::kDouble:
      Store(array, place, of.real);
      break;
    case CsvType::kString:
      Store(array, place, ByteRange{of.text.data(), of.text.size()});
      break;
  }
  return of.has_default;
}

}  // namespace ascpipe
