// Index of the features that a program reads: a hash table from the name of a feature to its number.
#ifndef ASCPIPE_INPUT_FEATURE_INDEX_H_
#define ASCPIPE_INPUT_FEATURE_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "input/wire.h"

namespace ascpipe {

class FeatureIndex {
 public:
  // All names must be distinct.
  explicit FeatureIndex(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }

  // Returns the index of a name in names(). Returns -1 if the name is not one of them.
  std::int32_t Find(ByteRange name) const;

 private:
  // First and last bytes of a name. Names of at most 16 bytes with equal keys and sizes are equal.
  struct Key {
    std::uint64_t first, last;
  };

  struct Place {
    Key key;
    std::uint32_t size;
    std::int32_t number;  // -1: the place is free
  };

  static Key KeyOf(ByteRange name);
  static std::size_t HashOf(const Key& key, std::size_t size);

  std::vector<std::string> names_;
  std::vector<Place> places_;  // hash table with linear probing; the size is a power of two
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_FEATURE_INDEX_H_
