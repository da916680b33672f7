#include "input/permutation.h"

#include "core/splitmix.h"

namespace ascpipe {

constexpr int Permutation::kRounds;
constexpr int Permutation::kLeastBits;
constexpr std::int64_t Permutation::kMostNumbers;

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t count)
    : count_(static_cast<std::uint64_t>(count)) {
  int bits = kLeastBits;
  while (bits < 63 && (count_ - 1) >> bits != 0) ++bits;
  low_bits_ = bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
  const std::uint64_t key = Mix(Mix(seed + kGolden) ^ epoch);
  for (int round = 0; round < kRounds; ++round) {
    keys_[round] = Mix(key + (static_cast<std::uint64_t>(round) + 1) * kGolden);
  }
}

std::int64_t Permutation::At(std::int64_t position) const {
  std::uint64_t number = static_cast<std::uint64_t>(position);
  do {
    number = Encrypt(number);
  } while (number >= count_);
  return static_cast<std::int64_t>(number);
}

// The upper bits are used because the mixing function distributes them best.
std::uint64_t Permutation::Round(std::uint64_t half, int round) const { return Mix(half + keys_[round]) >> 32; }

std::uint64_t Permutation::Encrypt(std::uint64_t number) const {
  std::uint64_t low = number & low_mask_, high = number >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= Round(low, round) & high_mask_;
    low ^= Round(high, round + 1) & low_mask_;
  }
  return high << low_bits_ | low;
}

}  // namespace ascpipe
