// The mixing function of splitmix64 (Steele, Lea, Flood 2014). Mix maps a sequence with constant steps to pseudo-random
// numbers.
#ifndef ASCPIPE_CORE_SPLITMIX_H_
#define ASCPIPE_CORE_SPLITMIX_H_

#include <cstdint>

namespace ascpipe {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15u;  // the step of splitmix64

// A bijection of 64-bit numbers.
inline std::uint64_t Mix(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_SPLITMIX_H_
