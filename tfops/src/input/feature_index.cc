#include "input/feature_index.h"

#include <algorithm>
#include <utility>

namespace ascpipe {
namespace {

constexpr int kLeastBits = 4;
constexpr std::size_t kPlacesPerName = 8;
constexpr std::size_t kMostTries = 256;       // maximum number of multipliers to try
constexpr std::size_t kMostPlaced = 1 << 16;  // maximum number of names that all tries together insert
constexpr std::uint64_t kFirstMultiplier = 0x9e3779b97f4a7c15u;  // 2^64 / golden ratio (Knuth, TAOCP 3, 6.4)

}  // namespace

// The index tries several multipliers and uses the multiplier with the fewest collisions. Usually there is none.
FeatureIndex::FeatureIndex(std::vector<std::string> names) : names_(std::move(names)) {
  int bits = kLeastBits;
  while ((std::size_t{1} << bits) < kPlacesPerName * names_.size()) ++bits;
  shift_ = 64 - bits;
  places_.resize(std::size_t{1} << bits);
  std::uint64_t multiplier = kFirstMultiplier, best = multiplier;
  std::size_t fewest = names_.size() + 1;
  const std::size_t tries = std::min(kMostTries, 1 + kMostPlaced / std::max<std::size_t>(1, names_.size()));
  for (std::size_t i = 0; i < tries && fewest > 0; ++i) {
    const std::size_t collisions = Fill(multiplier);
    if (collisions < fewest) {
      fewest = collisions;
      best = multiplier;
    }
    multiplier = multiplier * kFirstMultiplier + 2;  // the multiplier stays odd
  }
  Fill(best);
}

// Fills the hash table. Returns the number of collisions: names that are not stored at the index of their hash.
std::size_t FeatureIndex::Fill(std::uint64_t multiplier) {
  multiplier_ = multiplier;
  std::fill(places_.begin(), places_.end(), Place{{0, 0}, 0, -1});
  std::size_t collisions = 0;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const ByteRange name{names_[i].data(), names_[i].size()};
    const Key key = KeyOf(name, name.data + name.size);
    std::size_t at = HashOf(key, name.size);
    if (places_[at].number >= 0) ++collisions;
    while (places_[at].number >= 0) at = (at + 1) & (places_.size() - 1);
    places_[at] = {key, static_cast<std::uint32_t>(name.size), static_cast<std::int32_t>(i)};
  }
  return collisions;
}

}  // namespace ascpipe
