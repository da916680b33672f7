#include "input/example_writer.h"

#include "input/example_parser.h"
#include "input/record_file.h"
#include "input/wire.h"

namespace ascpipe {
namespace {

void AppendVarint(std::uint64_t number, std::string* out) {
  for (; number >= 0x80; number >>= 7) out->push_back(static_cast<char>((number & 0x7f) | 0x80));
  out->push_back(static_cast<char>(number));
}

void AppendDelimited(int number, const char* data, std::size_t size, std::string* out) {
  out->push_back(static_cast<char>(DelimitedTag(number)));
  AppendVarint(size, out);
  out->append(data, size);
}

void AppendDelimited(int number, const std::string& data, std::string* out) {
  AppendDelimited(number, data.data(), data.size(), out);
}

template <typename Number>
void AppendBytes(Number number, std::string* out) {
  out->append(reinterpret_cast<const char*>(&number), sizeof(number));  // the machine is little-endian, like the format
}

// Appends the value of a record to `packed`, which is the content of a list's field. Returns the type of the list.
ValueType AppendValue(const WrittenColumn& column, std::int64_t record, std::string* packed) {
  switch (column.type) {
    case CsvType::kString: {
      const ByteRange text = static_cast<const ByteRange*>(column.values)[record];
      packed->append(text.data, text.size);
      return ValueType::kBytes;
    }
    case CsvType::kFloat:
      AppendBytes(static_cast<const float*>(column.values)[record], packed);
      return ValueType::kFloat;
    case CsvType::kDouble:
      AppendBytes(static_cast<float>(static_cast<const double*>(column.values)[record]), packed);
      return ValueType::kFloat;
    case CsvType::kInt32:
      AppendVarint(static_cast<std::uint64_t>(std::int64_t{static_cast<const std::int32_t*>(column.values)[record]}),
                   packed);
      return ValueType::kInt64;
    case CsvType::kInt64:
    case CsvType::kHex:
      break;
  }
  AppendVarint(static_cast<std::uint64_t>(static_cast<const std::int64_t*>(column.values)[record]), packed);
  return ValueType::kInt64;
}

}  // namespace

void WriteExamples(const std::vector<WrittenColumn>& columns, std::int64_t records, std::string* out) {
  std::string packed, list, feature, entry, features, example;
  for (std::int64_t record = 0; record < records; ++record) {
    features.clear();
    for (const WrittenColumn& column : columns) {
      if (column.has_values != nullptr && column.has_values[record] == 0) continue;
      for (std::string* part : {&packed, &list, &feature, &entry}) part->clear();
      const ValueType type = AppendValue(column, record, &packed);
      AppendDelimited(1, packed, &list);
      AppendDelimited(static_cast<int>(type), list, &feature);
      AppendDelimited(1, column.name, &entry);
      AppendDelimited(2, feature, &entry);
      AppendDelimited(1, entry, &features);
    }
    example.clear();
    AppendDelimited(1, features, &example);
    std::string length;
    AppendBytes(std::uint64_t{example.size()}, &length);
    out->append(length);
    AppendBytes(MaskedCrc(length.data(), length.size()), out);
    out->append(example);
    AppendBytes(MaskedCrc(example.data(), example.size()), out);
  }
}

}  // namespace ascpipe
