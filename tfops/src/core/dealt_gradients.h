// The sums of AddGradients by several threads: gradients are dealt out by the row they are added to.
#ifndef ASCPIPE_CORE_DEALT_GRADIENTS_H_
#define ASCPIPE_CORE_DEALT_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "core/segment_sum.h"

namespace ascpipe {

// A restore index outside its range.
struct BadIndex {
  int lookup = 0;
  std::int64_t position = -1;  // none
};

// A hand is a partition: the rows of one residue, so that frequent rows, which have the lowest numbers, are spread.  A
// hand adds the gradients of its rows in the order of lookups and positions: the additions of a row are those of
// AddGradients, at any number of threads.
class DealtGradients {
 public:
  static constexpr std::int64_t kHands = 32;

  // Arguments as of AddGradients; keeps pointers to them.
  DealtGradients(const std::int32_t* places, std::int64_t place_count, const std::vector<LookupGradient>& lookups,
                 std::int64_t dim);

  std::int64_t chunks() const { return static_cast<std::int64_t>(chunks_.size()); }

  // Deals out chunks [begin, end) of the positions.  Calls may run at the same time; all come before the first Add.
  void Deal(std::int64_t begin, std::int64_t end);

  // After Deal: the first restore index outside [-1, place_count).  Nothing may then be added.
  BadIndex bad() const;

  // Zeroes and sums the rows of hands [begin, end) of float[valid, dim].  Calls may run at the same time.
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
    std::int32_t hands[kHands + 1] = {0};  // where the cards of each begin
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
