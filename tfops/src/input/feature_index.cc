#include "input/feature_index.h"

#include <cstring>
#include <utility>

namespace ascpipe {
namespace {

constexpr std::size_t kLeastPlaces = 16, kPlacesPerName = 4;

// Odd 64-bit constants of MurmurHash3's finalizer (Austin Appleby, public domain).
constexpr std::uint64_t kMixFirst = 0xff51afd7ed558ccdu, kMixLast = 0xc4ceb9fe1a85ec53u;

template <typename Word>
std::uint64_t Load(const char* at) {
  Word word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

}  // namespace

FeatureIndex::FeatureIndex(std::vector<std::string> names) : names_(std::move(names)) {
  std::size_t count = kLeastPlaces;
  while (count < kPlacesPerName * names_.size()) count *= 2;
  places_.assign(count, Place{{0, 0}, 0, -1});
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const ByteRange name{names_[i].data(), names_[i].size()};
    const Key key = KeyOf(name);
    std::size_t at = HashOf(key, name.size) & (count - 1);
    while (places_[at].number >= 0) at = (at + 1) & (count - 1);
    places_[at] = {key, static_cast<std::uint32_t>(name.size), static_cast<std::int32_t>(i)};
  }
}

std::int32_t FeatureIndex::Find(ByteRange name) const {
  const Key key = KeyOf(name);
  const std::size_t last = places_.size() - 1;
  for (std::size_t at = HashOf(key, name.size) & last;; at = (at + 1) & last) {
    const Place& place = places_[at];
    if (place.number < 0) return -1;
    if (place.key.first != key.first || place.key.last != key.last || place.size != name.size) continue;
    if (name.size <= 16 || std::memcmp(names_[place.number].data(), name.data, name.size) == 0) return place.number;
  }
}

FeatureIndex::Key FeatureIndex::KeyOf(ByteRange name) {
  const char* const data = name.data;
  if (name.size >= 8) return {Load<std::uint64_t>(data), Load<std::uint64_t>(data + name.size - 8)};
  if (name.size >= 4) return {Load<std::uint32_t>(data), Load<std::uint32_t>(data + name.size - 4)};
  if (name.size >= 2) return {Load<std::uint16_t>(data), Load<std::uint16_t>(data + name.size - 2)};
  return {name.size == 1 ? Load<std::uint8_t>(data) : 0, 0};
}

std::size_t FeatureIndex::HashOf(const Key& key, std::size_t size) {
  const std::uint64_t mixed = (key.first + size) * kMixFirst ^ key.last * kMixLast;
  return static_cast<std::size_t>(mixed ^ mixed >> 32);
}

}  // namespace ascpipe
