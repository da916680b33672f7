#include "input/example_schema.h"

#include <algorithm>
#include <utility>

namespace ascpipe {
namespace {

constexpr std::uint8_t kNumberTag = 1 << 3;     // a number that is not packed
constexpr std::uint8_t kFloatTag = 1 << 3 | 5;  // a float that is not packed
constexpr std::uint8_t kListTag = DelimitedTag(1), kFirstTag = DelimitedTag(1), kSecondTag = DelimitedTag(2);

// Counts packed varints. Returns false if the last varint is incomplete or a varint has more than 64 bits.
bool CountPacked(ByteRange packed, std::int64_t* count) {
  Wire wire(packed);
  std::uint64_t number;
  for (; !wire.AtEnd(); ++*count) {
    if (!wire.Varint(&number)) return false;
  }
  return true;
}

// Counts the values of a BytesList, FloatList or Int64List.
bool CountValues(ByteRange list, ValueType type, std::int64_t* count) {
  Wire wire(list);
  std::uint64_t number;
  ByteRange bytes;
  while (!wire.AtEnd()) {
    if (wire.Skip(kListTag)) {
      if (!wire.Delimited(&bytes)) return false;
      if (type == ValueType::kBytes) {
        ++*count;
      } else if (type == ValueType::kInt64) {
        if (!CountPacked(bytes, count)) return false;
      } else {
        if (bytes.size % sizeof(float) != 0) return false;
        *count += static_cast<std::int64_t>(bytes.size / sizeof(float));
      }
    } else if (type == ValueType::kInt64 && wire.Skip(kNumberTag)) {
      if (!wire.Varint(&number)) return false;
      ++*count;
    } else if (type == ValueType::kFloat && wire.Skip(kFloatTag)) {
      if (!wire.SkipBytes(sizeof(float))) return false;
      ++*count;
    } else {
      return false;
    }
  }
  return true;
}

// Reads the type of a Feature and the number of its values. Lists of the same type are concatenated, and a list of
// another type replaces the lists before it.
bool ReadFeature(ByteRange feature, int* type, std::int64_t* count) {
  Wire wire(feature);
  while (!wire.AtEnd()) {
    ByteRange list;
    int found = 0;
    for (const ValueType each : {ValueType::kBytes, ValueType::kFloat, ValueType::kInt64}) {
      if (found == 0 && wire.Skip(DelimitedTag(static_cast<int>(each)))) found = static_cast<int>(each);
    }
    if (found == 0 || !wire.Delimited(&list)) return false;
    if (found != *type) *count = 0;
    *type = found;
    if (!CountValues(list, static_cast<ValueType>(found), count)) return false;
  }
  return true;
}

}  // namespace

constexpr std::size_t ExampleSchema::kMostFeatures;

bool ExampleSchema::Add(ByteRange bytes, std::int64_t record) {
  found_.clear();
  Wire wire(bytes);
  while (!wire.AtEnd()) {
    ByteRange entries, entry;
    if (!wire.Skip(kFirstTag) || !wire.Delimited(&entries)) return false;
    Wire map(entries);
    while (!map.AtEnd()) {
      if (!map.Skip(kFirstTag) || !map.Delimited(&entry) || !AddEntry(entry, record)) return false;
    }
  }
  ++records_;
  for (const Occurrence& occurrence : found_) {
    FeatureSummary* const feature = &features_[occurrence.feature];
    feature->least = feature->records == 0 ? occurrence.count : std::min(feature->least, occurrence.count);
    feature->most = std::max(feature->most, occurrence.count);
    ++feature->records;
    if (occurrence.type == 0) continue;
    if (feature->type == 0) {
      feature->type = occurrence.type;
      feature->first = record;
    } else if (feature->type != occurrence.type && feature->other < 0) {
      feature->other = record;
    }
  }
  return true;
}

bool ExampleSchema::AddEntry(ByteRange entry, std::int64_t record) {
  ByteRange name{nullptr, 0}, part;
  Occurrence occurrence = {0, 0, 0};
  Wire wire(entry);
  while (!wire.AtEnd()) {
    if (wire.Skip(kFirstTag)) {
      if (!wire.Delimited(&name)) return false;
    } else {
      if (!wire.Skip(kSecondTag) || !wire.Delimited(&part)) return false;
      if (!ReadFeature(part, &occurrence.type, &occurrence.count)) return false;
    }
  }
  if (!FindFeature(name, &occurrence.feature)) return false;
  Last* const last = &last_[occurrence.feature];
  if (last->record == record) {
    found_[last->position] = occurrence;
  } else {
    *last = {record, found_.size()};
    found_.push_back(occurrence);
  }
  return true;
}

// Finds or adds a feature. Returns false if there are too many features.
bool ExampleSchema::FindFeature(ByteRange name, std::size_t* feature) {
  const std::int32_t indexed = index_.Find(name, name.data + name.size);
  if (indexed >= 0) {
    *feature = static_cast<std::size_t>(indexed);
    return true;
  }
  // The index is rebuilt when the number of misses exceeds the number of features. Therefore the cost per lookup is
  // small.
  if (++misses_ > features_.size()) {
    std::vector<std::string> names;
    names.reserve(features_.size());
    for (const FeatureSummary& known : features_) names.push_back(known.name);
    index_ = FeatureIndex(std::move(names));
    misses_ = 0;
  }
  if (name.size == 0) {
    name_.clear();
  } else {
    name_.assign(name.data, name.size);
  }
  const auto known = numbers_.find(name_);
  if (known != numbers_.end()) {
    *feature = known->second;
    return true;
  }
  if (features_.size() == kMostFeatures) return false;
  *feature = features_.size();
  numbers_.emplace(name_, features_.size());
  features_.emplace_back();
  features_.back().name = name_;
  last_.push_back({-1, 0});
  return true;
}

}  // namespace ascpipe
