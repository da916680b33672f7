#include "input/example_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ascpipe {
namespace {

// Fields of tf.train.Example, Features, the entries of the map in Features, and the lists of values.
constexpr std::uint8_t kFeatures = DelimitedTag(1), kEntry = DelimitedTag(1), kName = DelimitedTag(1),
                       kFeature = DelimitedTag(2), kValues = DelimitedTag(1);

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;  // of a record that TensorFlow's parser can read

std::vector<std::string> NamesOf(const std::vector<WantedFeature>& features) {
  std::vector<std::string> names;
  names.reserve(features.size());
  for (const WantedFeature& feature : features) names.push_back(feature.name);
  return names;
}

// Reads a message that has only one field, which fills the message.
bool OnlyField(ByteRange message, std::uint8_t tag, ByteRange* field) {
  Wire wire(message);
  return wire.Skip(tag) && wire.Delimited(field) && wire.AtEnd();
}

// Reads an entry in which each length has one byte. Returns false for all other entries.
bool ReadShortEntry(const char* at, const char* end, ByteRange* name, ByteRange* feature) {
  const auto left = static_cast<std::size_t>(end - at);
  if (left < 6) return false;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(at);
  const std::size_t size = bytes[1], name_size = bytes[3];
  if (bytes[0] != kEntry || bytes[2] != kName || size >= 0x80 || size < name_size + 4 || size + 2 > left) return false;
  const std::uint8_t* const rest = bytes + 4 + name_size;
  if (rest[0] != kFeature || rest[1] != size - name_size - 4) return false;
  *name = {at + 4, name_size};
  *feature = {at + 6 + name_size, rest[1]};
  return true;
}

// Returns whether a feature is a list with one field, packed numbers in `packed`, in which each length has one byte.
bool ReadShortList(ByteRange feature, ValueType type, ByteRange* packed) {
  if (feature.size < 4 || feature.size >= 0x80) return false;
  const std::uint32_t size = static_cast<std::uint32_t>(feature.size);
  const std::uint32_t head = DelimitedTag(static_cast<int>(type)) | (size - 2) << 8 | kValues << 16 | (size - 4) << 24;
  *packed = {feature.data + 4, feature.size - 4};
  return LoadWord<std::uint32_t>(feature.data) == head;
}

// Reads the first of some entries.
bool ReadEntry(ByteRange entries, ByteRange* name, ByteRange* feature) {
  Wire wire(entries);
  ByteRange entry;
  if (!wire.Skip(kEntry) || !wire.Delimited(&entry)) return false;
  Wire pair(entry);
  return pair.Skip(kName) && pair.Delimited(name) && pair.Skip(kFeature) && pair.Delimited(feature) && pair.AtEnd();
}

// Returns the number of varints in packed bytes.
std::int64_t CountVarints(ByteRange packed) {
  return std::count_if(packed.data, packed.data + packed.size, [](char byte) { return (byte & 0x80) == 0; });
}

// Reads `count` packed varints, which are all of the bytes.
bool ReadNumbers(ByteRange packed, std::int64_t count, std::int64_t* numbers) {
  Wire wire(packed);
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t number;
    if (!wire.Varint(&number)) return false;
    numbers[i] = static_cast<std::int64_t>(number);
  }
  return wire.AtEnd();
}

void CopyFloats(ByteRange packed, float* floats) {
  static_assert(sizeof(float) == 4, "packed floats have 4 bytes");
  if (packed.size != 0) std::memcpy(floats, packed.data, packed.size);  // x86-64 is little-endian, like the wire format
}

bool AppendNumbers(ByteRange packed, Column* column) {
  const std::int64_t count = CountVarints(packed);
  const std::size_t before = column->more_numbers.size();
  column->more_numbers.resize(before + count);
  column->counts.push_back(count);
  return ReadNumbers(packed, count, column->more_numbers.data() + before);
}

bool AppendFloats(ByteRange packed, Column* column) {
  if (packed.size % sizeof(float) != 0) return false;
  const std::size_t before = column->more_floats.size(), count = packed.size / sizeof(float);
  column->more_floats.resize(before + count);
  column->counts.push_back(static_cast<std::int64_t>(count));
  CopyFloats(packed, column->more_floats.data() + before);
  return true;
}

bool AppendStrings(ByteRange list, Column* column) {
  const std::size_t before = column->more_strings.size();
  Wire wire(list);
  while (!wire.AtEnd()) {
    ByteRange value;
    if (!wire.Skip(kValues) || !wire.Delimited(&value)) return false;
    column->more_strings.push_back(value);
  }
  column->counts.push_back(static_cast<std::int64_t>(column->more_strings.size() - before));
  return true;
}

bool ReadStrings(ByteRange list, std::int64_t count, ByteRange* strings) {
  Wire wire(list);
  for (std::int64_t i = 0; i < count; ++i) {
    if (!wire.Skip(kValues) || !wire.Delimited(strings + i)) return false;
  }
  return wire.AtEnd();
}

}  // namespace

constexpr std::int64_t WantedFeature::kAnyCount;

ExampleParser::ExampleParser(std::vector<WantedFeature> features)
    : features_(std::move(features)), index_(NamesOf(features_)) {}

bool ExampleParser::Parse(ByteRange bytes, std::int64_t record, std::vector<Column>* columns) const {
  if (bytes.size > kMostBytes) return false;
  std::size_t found = 0;
  ByteRange entries{nullptr, 0};
  if (bytes.size != 0 && !OnlyField(bytes, kFeatures, &entries)) return false;
  const char* const end = entries.data + entries.size;
  for (const char* at = entries.data; at != end;) {
    ByteRange name, feature;
    if (!ReadShortEntry(at, end, &name, &feature) &&
        !ReadEntry({at, static_cast<std::size_t>(end - at)}, &name, &feature)) {
      return false;
    }
    at = feature.data + feature.size;
    const std::int32_t number = index_.Find(name, end);
    if (number < 0) continue;
    Column* const column = columns->data() + number;
    if (column->last_record == record) return false;  // the record has the feature twice
    column->last_record = record;
    if (!ParseFeature(features_[number], feature, end, record, column)) return false;
    ++found;
  }
  for (std::size_t i = 0; found < features_.size() && i < features_.size(); ++i) {
    Column* const column = columns->data() + i;
    if (column->last_record == record) continue;
    if (features_[i].is_required) return false;
    (features_[i].count == WantedFeature::kAnyCount ? column->counts : column->missing_in)
        .push_back(features_[i].count == WantedFeature::kAnyCount ? 0 : record);
    ++found;
  }
  return true;
}

bool ExampleParser::ParseFeature(const WantedFeature& wanted, ByteRange feature, const char* end, std::int64_t record,
                                 Column* column) const {
  ByteRange list, packed{nullptr, 0};
  if (wanted.type == ValueType::kInt64 && wanted.count == 1 && ReadShortList(feature, wanted.type, &packed) &&
      packed.size - 1 < kWordBytes && static_cast<std::size_t>(end - packed.data) >= kWordBytes) {
    return ReadVarintOf(packed.data, packed.size, column->numbers + record);
  }
  if (!OnlyField(feature, DelimitedTag(static_cast<int>(wanted.type)), &list)) return false;
  const bool any = wanted.count == WantedFeature::kAnyCount;
  if (wanted.type == ValueType::kBytes) {
    return any ? AppendStrings(list, column) : ReadStrings(list, wanted.count, column->strings + record * wanted.count);
  }
  if (list.size != 0 && !OnlyField(list, kValues, &packed)) return false;
  if (wanted.type == ValueType::kFloat) {
    if (any) return AppendFloats(packed, column);
    if (packed.size != wanted.count * sizeof(float)) return false;
    CopyFloats(packed, column->floats + record * wanted.count);
    return true;
  }
  return any ? AppendNumbers(packed, column)
             : ReadNumbers(packed, wanted.count, column->numbers + record * wanted.count);
}

bool ExampleParser::Reads(const std::vector<WantedFeature>& features) const {
  return features.size() == features_.size() &&
         std::equal(
             features.begin(), features.end(), features_.begin(), [](const WantedFeature& a, const WantedFeature& b) {
               return a.name == b.name && a.type == b.type && a.count == b.count && a.is_required == b.is_required;
             });
}

}  // namespace ascpipe
