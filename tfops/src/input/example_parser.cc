#include "input/example_parser.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ascpipe {
namespace {

// Tags of the fields in the messages tf.train.Example, Features, map entry, Feature and list of values.
constexpr std::uint8_t kFeatures = DelimitedTag(1), kEntry = DelimitedTag(1), kName = DelimitedTag(1),
                       kFeature = DelimitedTag(2), kValues = DelimitedTag(1);

// Number of bytes before the name, and between the name and the values, in an entry whose lengths have one byte each.
constexpr std::size_t kHeadBytes = 4, kFeatureHeadBytes = 6;
constexpr std::uint32_t kHead = kEntry | kName << 16, kHeadMask = 0x80ff80ff;

// Number of bytes before the content of a feature, and before the content of its list.
constexpr std::uint64_t kFeatureBytes = 2, kListBytes = 4;
constexpr std::uint64_t kFeatureHeadMask = 0xffffffffffff;
// Adding n * kEachLength to the bytes before the values increases each of the three lengths in these bytes by n.
constexpr std::uint64_t kEachLength = 0x010001000100;
constexpr std::uint64_t kNoHead = std::uint64_t{1} << 63;  // `head` of a feature without a short form

constexpr std::size_t kMostBytes = (std::size_t{1} << 31) - 1;  // maximum record size of TensorFlow's parser

std::vector<std::string> NamesOf(const std::vector<WantedFeature>& features) {
  std::vector<std::string> names;
  names.reserve(features.size());
  for (const WantedFeature& feature : features) names.push_back(feature.name);
  return names;
}

// Reads a message that consists of one field.
bool OnlyField(ByteRange message, std::uint8_t tag, ByteRange* field) {
  Wire wire(message);
  return wire.Skip(tag) && wire.Delimited(field) && wire.AtEnd();
}

// Reads the first entry.
bool ReadEntry(ByteRange entries, ByteRange* name, ByteRange* feature) {
  Wire wire(entries);
  ByteRange entry;
  if (!wire.Skip(kEntry) || !wire.Delimited(&entry)) return false;
  Wire pair(entry);
  return pair.Skip(kName) && pair.Delimited(name) && pair.Skip(kFeature) && pair.Delimited(feature) && pair.AtEnd();
}

// Returns the number of varints in a packed field.
std::int64_t CountVarints(ByteRange packed) {
  return std::count_if(packed.data, packed.data + packed.size, [](char byte) { return (byte & 0x80) == 0; });
}

// Reads `count` packed varints. Returns false if the field does not consist of exactly `count` varints.
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
    : features_(std::move(features)), index_(NamesOf(features_)) {
  for (const WantedFeature& feature : features_) short_forms_.push_back(ShortFormOf(feature));
}

ExampleParser::ShortForm ExampleParser::ShortFormOf(const WantedFeature& feature) {
  const bool is_number = feature.type == ValueType::kInt64 && feature.count == 1;
  const bool are_floats = feature.type == ValueType::kFloat && feature.count != WantedFeature::kAnyCount;
  if (!is_number && !are_floats) return {kNoHead, 0};
  const std::uint64_t tag = DelimitedTag(static_cast<int>(feature.type));
  const std::uint64_t tags = kFeature | tag << 16 | std::uint64_t{kValues} << 32;
  return {tags - (kFeatureBytes << 24) - (kListBytes << 40), is_number ? 0 : feature.count * sizeof(float)};
}

inline const char* ExampleParser::ParseShortEntry(const char* at, const char* end, std::int64_t record,
                                                  std::vector<Column>* columns, std::size_t* found) const {
  const auto left = static_cast<std::size_t>(end - at);
  if (left < kHeadBytes) return nullptr;
  const auto head = LoadWord<std::uint32_t>(at);
  const std::size_t entry_size = head >> 8 & 0xff, name_size = head >> 24;
  if ((head & kHeadMask) != kHead || name_size == 0 || left < kHeadBytes + name_size + kFeatureHeadBytes + kWordBytes) {
    return nullptr;
  }
  const char* const rest = at + kHeadBytes + name_size;
  const auto feature_head = LoadWord<std::uint64_t>(rest);
  const std::uint64_t size = entry_size - kHeadBytes - name_size;  // of the feature; wraps around if lengths are wrong
  if (size >= 0x80 || left < kHeadBytes + name_size + kFeatureBytes + size) return nullptr;
  const std::int32_t number = index_.FindLoadable({at + kHeadBytes, name_size});
  if (number < 0) {
    return (feature_head & 0xffff) == (kFeature | size << 8) ? rest + kFeatureBytes + size : nullptr;
  }
  const ShortForm& form = short_forms_[number];
  Column* const column = columns->data() + number;
  const std::size_t bytes = size - kListBytes;  // size of the values
  if (size <= kListBytes || (feature_head & kFeatureHeadMask) != form.head + size * kEachLength ||
      column->last_record == record) {
    return nullptr;
  }
  const char* const values = rest + kFeatureHeadBytes;
  if (form.float_bytes == 0) {
    if (bytes > kWordBytes || !ReadVarintOf(values, bytes, column->numbers + record)) return nullptr;
  } else {
    if (bytes != form.float_bytes) return nullptr;
    std::memcpy(reinterpret_cast<char*>(column->floats) + record * bytes, values, bytes);
  }
  column->last_record = record;
  ++*found;
  return values + bytes;
}

bool ExampleParser::Parse(ByteRange bytes, std::int64_t record, std::vector<Column>* columns) const {
  if (bytes.size > kMostBytes) return false;
  std::size_t found = 0;
  ByteRange entries{nullptr, 0};
  if (bytes.size != 0 && !OnlyField(bytes, kFeatures, &entries)) return false;
  const char* const end = entries.data + entries.size;
  for (const char* at = entries.data; at != end;) {
    if (const char* const next = ParseShortEntry(at, end, record, columns, &found)) {
      at = next;
      continue;
    }
    ByteRange name, feature;
    if (!ReadEntry({at, static_cast<std::size_t>(end - at)}, &name, &feature)) return false;
    at = feature.data + feature.size;
    const std::int32_t number = index_.Find(name, end);
    if (number < 0) continue;
    Column* const column = columns->data() + number;
    if (column->last_record == record) return false;  // the record has the feature twice
    column->last_record = record;
    if (!ParseFeature(features_[number], feature, record, column)) return false;
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

bool ExampleParser::ParseFeature(const WantedFeature& wanted, ByteRange feature, std::int64_t record,
                                 Column* column) const {
  ByteRange list, packed{nullptr, 0};
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
