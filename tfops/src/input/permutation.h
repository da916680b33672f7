// Pseudo-random permutation of the numbers below n. The permutation is computed, so it needs no memory for the numbers.
//
// The construction is a Feistel network (Luby, Rackoff 1988: "How to construct pseudorandom permutations from
// pseudorandom functions"). The network permutes the numbers below a power of two: the smallest one that is at least n
// and at least 64. The sizes of the two halves of a number are equal or differ by one bit. A result that is not below n
// is permuted again until it is below n ("cycle walking", Black, Rogaway 2002: "Ciphers with arbitrary finite
// domains"). On average, cycle walking needs fewer than two permutations. The round function is the mixing function of
// splitmix64. The permutation is for shuffling and not for cryptography.
#ifndef ASCPIPE_INPUT_PERMUTATION_H_
#define ASCPIPE_INPUT_PERMUTATION_H_

#include <cstdint>

namespace ascpipe {

class Permutation {
 public:
  static constexpr int kRounds = 8;
  // With fewer than kLeastBits bits, the permutations of five numbers are not equally frequent
  // (tests/unit/data/test_order.py).
  static constexpr int kLeastBits = 6;
  static constexpr std::int64_t kMostNumbers = INT64_MAX;

  // The permutation depends only on the arguments. `count` is at least 1.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t count);

  // Returns the number at a position of the permuted sequence. `position` is below `count`.
  std::int64_t At(std::int64_t position) const;

 private:
  std::uint64_t Round(std::uint64_t half, int round) const;
  std::uint64_t Encrypt(std::uint64_t number) const;

  std::uint64_t count_;
  int low_bits_;
  std::uint64_t low_mask_, high_mask_;
  std::uint64_t keys_[kRounds];
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_PERMUTATION_H_
