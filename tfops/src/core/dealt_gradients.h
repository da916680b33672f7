// AddGradients by several threads: gradients are partitioned by their row.
#ifndef ASCPIPE_CORE_DEALT_GRADIENTS_H_
#define ASCPIPE_CORE_DEALT_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "core/segment_sum.h"

namespace ascpipe {

// A restore index outside its range.
struct BadIndex {
  int lookup = 0;
  std::int64_t position = -1;  // -1: none
};

// A hand is a partition: the rows with one residue, so that frequent rows, which have the lowest numbers, are spread.
// A hand adds the gradients of its rows in the order of lookups and positions, so sums are bit-identical to
// AddGradients at any number of threads.
class DealtGradients {
 public:
  static constexpr std::int64_t kHands = 32;

  // Takes the arguments of AddGradients, and keeps pointers to them.
  DealtGradients(const std::int32_t* places, std::int64_t place_count, const std::vector<LookupGradient>& lookups,
                 std::int64_t dim);

  std::int64_t chunks() const { return static_cast<std::int64_t>(chunks_.size()); }

  // Partitions chunks [begin, end) of the positions.  Calls may run concurrently; all must finish before the first Add.
  void Deal(std::int64_t begin, std::int64_t end);

  // Call after Deal.  Returns the first restore index outside [-1, place_count); if there is one, do not call Add.
  BadIndex bad() const;

  // Zeroes and sums the rows of hands [begin, end) of float[valid, dim].  Calls may run concurrently.
  void Add(std::int64_t begin, std::int64_t end, std::int64_t valid, float* sums) const;

 private:
  struct Card {
    std::int32_t position;
    std::int32_t place;
  };
  struct Chunk {
    int lookup;
    std::int64_t begin, end;  // positions of the lookup
    std::int64_t bad = -1;
    std::vector<Card> cards;               // by hand, then by position
    std::int32_t hands[kHands + 1] = {0};  // index of the first card of each hand
  };

  void DealChunk(Chunk* chunk) const;
  template <std::int64_t constant_dim>
  void AddHand(std::int64_t hand, float* sums) const;

  const std::int32_t* const places_;
  const std::int64_t place_count_;
  const std::vector<LookupGradient>& lookups_;
  const std::int64_t dim_;
  std::vector<Chunk> chunks_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_DEALT_GRADIENTS_H_
