// Index of the features that a program reads: a hash table from the name of a feature to its number.
#ifndef ASCPIPE_INPUT_FEATURE_INDEX_H_
#define ASCPIPE_INPUT_FEATURE_INDEX_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "input/wire.h"

namespace ascpipe {

class FeatureIndex {
 public:
  // All names must be distinct.
  explicit FeatureIndex(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }

  // Returns the index of a name in names(). Returns -1 if names() does not contain the name. The bytes before `end`
  // must be readable.
  std::int32_t Find(ByteRange name, const char* end) const { return Find(KeyOf(name, end), name); }

  // Same as Find, but the name must have at least one byte, and 8 bytes at `name.data` must be readable.
  std::int32_t FindLoadable(ByteRange name) const { return Find(KeyOf(name), name); }

 private:
  // The first and the last bytes of a name. Two names of at most 16 bytes are equal if their keys and sizes are equal.
  struct Key {
    std::uint64_t first, last;
  };

  struct Place {
    Key key;
    std::uint32_t size;
    std::int32_t number;  // -1: unused
  };

  // The requirements of FindLoadable apply. The function has no branches: names of different sizes occur in any order,
  // so branches would be mispredicted.
  static Key KeyOf(ByteRange name) {
    const std::size_t shift = name.size < kWordBytes ? 64 - 8 * name.size : 0;
    const std::size_t tail = name.size < kWordBytes ? 0 : name.size - kWordBytes;
    return {LoadWord<std::uint64_t>(name.data) << shift, LoadWord<std::uint64_t>(name.data + tail) << shift};
  }

  static Key KeyOf(ByteRange name, const char* end) {
    if (name.size == 0) return {0, 0};
    if (static_cast<std::size_t>(end - name.data) >= kWordBytes) return KeyOf(name);
    char word[kWordBytes] = {};
    std::memcpy(word, name.data, name.size);
    return KeyOf({word, name.size});
  }

  std::int32_t Find(const Key& key, ByteRange name) const {
    const std::size_t last = places_.size() - 1;
    for (std::size_t at = HashOf(key, name.size);; at = (at + 1) & last) {
      const Place& place = places_[at];
      if (place.key.first == key.first && place.key.last == key.last && place.size == name.size &&
          (name.size <= 2 * kWordBytes || std::memcmp(names_[place.number].data(), name.data, name.size) == 0)) {
        return place.number;
      }
      if (place.number < 0) return -1;
    }
  }

  std::size_t HashOf(const Key& key, std::size_t size) const {
    return static_cast<std::size_t>(((key.first ^ size) * multiplier_ + key.last) * multiplier_ >> shift_);
  }

  std::size_t Fill(std::uint64_t multiplier);

  std::vector<std::string> names_;
  std::uint64_t multiplier_ = 1;
  int shift_;                  // the upper bits of a product are an index of places_
  std::vector<Place> places_;  // hash table with linear probing; the size is a power of two
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_FEATURE_INDEX_H_
