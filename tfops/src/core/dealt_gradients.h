// Parallel version of AddGradients. The gradients are partitioned among threads by row.
#ifndef ASCPIPE_CORE_DEALT_GRADIENTS_H_
#define ASCPIPE_CORE_DEALT_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "core/segment_sum.h"

namespace ascpipe {

// Location of a restore index that is out of range.
struct BadIndex {
  int lookup = 0;
  std::int64_t position = -1;  // -1: none
};

// A hand is one of kHands sets of rows. Groups of adjacent rows are assigned to the hands in turn. Each hand gets some
// of the frequent rows, because frequent rows have the lowest numbers. The gradients of a hand's rows are added in the
// order of lookups and positions. Therefore the sums are bit-identical to the sums of AddGradients for any number of
// threads.
class DealtGradients {
 public:
  static constexpr std::int64_t kHands = 32;

  // The parameters have the same meaning as in AddGradients. The arguments must stay valid, because DealtGradients
  // keeps pointers to them.
  DealtGradients(const std::int32_t* places, std::int64_t place_count, const std::vector<LookupGradient>& lookups,
                 std::int64_t dim);

  std::int64_t chunks() const { return static_cast<std::int64_t>(chunks_.size()); }

  // Partitions the chunks [begin, end) of the positions among the hands. Calls may run concurrently. All calls of Deal
  // must finish before the first call of Add.
  void Deal(std::int64_t begin, std::int64_t end);

  // Returns the first restore index outside [-1, place_count). Call bad() after Deal. Do not call Add if bad() returns
  // a position other than -1.
  BadIndex bad() const;

  // Zeroes the rows of the hands [begin, end) in `sums`, and adds the gradients of these rows. `sums` is float[valid,
  // dim]. Calls may run concurrently.
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
