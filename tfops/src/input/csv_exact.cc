// The slow path of CsvParser, for unusual and invalid records.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "input/csv_parser.h"

namespace ascpipe {
namespace {

constexpr std::size_t kMostShownBytes = 1000;  // maximum number of bytes of a field in an error message

// Returns the number of bytes of the UTF-8 character that begins at `at`. Returns 0 if the bytes are not a valid
// character.
std::size_t CharacterBytes(const std::string& text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return first == 0 ? 0 : 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > text.size() - at) return 0;
  std::uint32_t character = first & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xc0) != 0x80) return 0;
    character = character << 6 | (next & 0x3fu);
  }
  const std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = character >= 0xd800 && character < 0xe000;
  return character < least[bytes] || character > 0x10ffff || is_surrogate ? 0 : bytes;
}

// Returns a field as text for an error message. Bytes that are not UTF-8 are escaped, because Python crashes if the
// error of an op is not UTF-8.
std::string Shown(const std::string& field) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string shown;
  for (std::size_t at = 0; at < field.size();) {
    if (shown.size() >= kMostShownBytes) return shown + "...";
    const std::size_t bytes = CharacterBytes(field, at);
    if (bytes == 0) {
      const auto byte = static_cast<unsigned char>(field[at]);
      shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
    shown.append(field, at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return shown;
}

const char* NameOf(CsvType type) {
  switch (type) {
    case CsvType::kInt32:
      return "int32";
    case CsvType::kInt64:
      return "int64";
    case CsvType::kFloat:
      return "float";
    case CsvType::kDouble:
      return "double";
    case CsvType::kString:
      return "string";
    case CsvType::kHex:
      return "hexadecimal int64";
  }
  return "";
}

}  // namespace

bool CsvParser::ParseExactly(ByteRange record, std::int64_t place, CsvValues* values, std::string* error) const {
  std::vector<std::string> fields;
  if (!FindFields(record, &fields, error)) return false;
  if (fields.size() != options_.columns.size()) {
    *error = Text("Expect ", options_.columns.size(), " fields but have ", fields.size(), " in record ", place);
    return false;
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const ByteRange text{fields[i].data(), fields[i].size()};
    if (IsMissing(text)) {
      if (StoreDefault(i, place, values)) continue;
      *error = Text("Field ", i, " is required but missing in record ", place, "!");
      return false;
    }
    const bool is_string = options_.columns[i].type == CsvType::kString;
    if (is_string) values->unescaped.push_back(fields[i]);
    const std::string& kept = is_string ? values->unescaped.back() : fields[i];
    if (!Convert({kept.data(), kept.size()}, i, place, values)) {
      *error = Text("Field ", i, " in record ", place, " is not a valid ", NameOf(options_.columns[i].type), ": ",
                    Shown(kept));
      return false;
    }
  }
  return true;
}

// Finds the fields of the columns by the rules of decode_csv. Line ends before a field are skipped, and nothing after
// the last selected field is checked. Quotes are allowed at the same positions as in decode_csv.
bool CsvParser::FindFields(ByteRange record, std::vector<std::string>* fields, std::string* error) const {
  const char* const bytes = record.data;
  const auto reads = [&](std::int64_t number) {
    return !options_.selects || options_.columns[fields->size()].field == number;
  };
  if (options_.selects && options_.columns.empty()) return true;
  std::int64_t number = 0;
  for (std::size_t at = 0; at < record.size;) {
    if (bytes[at] == '\n' || bytes[at] == '\r') {
      ++at;
      continue;
    }
    std::string field;
    if (options_.use_quotes && bytes[at] == '"') {
      if (!FindQuoted(record, &at, &field, error)) return false;
    } else {
      const std::size_t begin = at;
      for (; at < record.size && bytes[at] != options_.delimiter; ++at) {
        if (is_special_[static_cast<unsigned char>(bytes[at])]) {
          *error = "Unquoted fields cannot have quotes/CRLFs inside";
          return false;
        }
      }
      field.assign(bytes + begin, bytes + at);
    }
    ++at;  // the delimiter
    if (reads(number++)) {
      fields->push_back(std::move(field));
      if (options_.selects && fields->size() == options_.columns.size()) return true;
    }
  }
  if (record.size > 0 && bytes[record.size - 1] == options_.delimiter && reads(number)) fields->emplace_back();
  return true;
}

// Reads a field that begins with a quote at `at`, and moves `at` to the end of the field.
bool CsvParser::FindQuoted(ByteRange record, std::size_t* at, std::string* field, std::string* error) const {
  const char* const bytes = record.data;
  std::size_t i = *at + 1;
  while (i + 1 < record.size && (bytes[i] != '"' || bytes[i + 1] != options_.delimiter)) {
    if (bytes[i] == '"') {
      if (bytes[i + 1] != '"') {
        *error = "Quote inside a string has to be escaped by another quote";
        return false;
      }
      ++i;
    }
    field->push_back(bytes[i++]);
  }
  if (i >= record.size || bytes[i] != '"') {
    *error = "Quoted field has to end with quote followed by delim or end";
    return false;
  }
  *at = i + 1;
  return true;
}

}  // namespace ascpipe
