// Cycles of gradient accumulation: an optimizer sums gradients over some batches, and then updates rows once.
//
// Rows are updated on the device, so the last batch of a cycle needs the rows of all its batches.  The ids of the other
// batches are appended to it.  Appended ids belong to no feature and do not count as occurrences.
//
// Batches are counted when they are submitted.  Batches that an iterator has read ahead are no longer counted when they
// are dropped with the iterator, because their number depends on the speed of threads.
#ifndef ASCPIPE_CORE_CYCLE_IDS_H_
#define ASCPIPE_CORE_CYCLE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace ascpipe {

class Batch;

// Where a batch is in the cycles of its tables.
struct CyclePlace {
  std::int64_t number = 0;          // of the batch, from 1 on
  std::vector<std::int64_t> steps;  // [tables or fewer]: batches of a cycle; 1: there are none

  std::int64_t StepsOf(int table) const {
    return static_cast<std::size_t>(table) < steps.size() ? steps[static_cast<std::size_t>(table)] : 1;
  }
  bool Ends(int table) const { return StepsOf(table) > 1 && number % StepsOf(table) == 0; }
};

// A sequence number is the number of a ticket in its run, from 1.
class CycleIds {
 public:
  // From the next batch on, cycles of a table have `steps` batches; 1: there are none.  `table`: index in the ring.
  void SetSteps(int table, std::int64_t steps);
  // Whether a table has cycles.
  bool Any() const;
  // Of a checkpoint that was restored: how many batches were trained before the next one that is used.
  // `open`: the last batch that a step may still use; 0: there is none.
  void SetBefore(std::int64_t batches, std::int64_t open);
  // The distinct ids of the last cycle there.  They take the place of the ids of batches that were used.
  void SetIds(int table, std::int64_t open, std::vector<std::int64_t> ids);
  // Whether a batch was passed before one of these calls, which changes where cycles of `steps` batches end, or their
  // ids.
  bool IsOfBefore(std::int64_t sequence, std::int64_t steps) const;

  // Takes the batches of a stream in their order.  The last batch of a cycle gets the distinct ids of the others.
  // `open`: the first batch before it that a step may still use; `sequence`: there is none.
  CyclePlace Pass(std::int64_t sequence, std::int64_t open, Batch* batch);
  // Batches up to this one were used by a step, or come before one that was: they stay counted.
  void Use(std::int64_t sequence) { used_ = sequence > used_ ? sequence : used_; }
  // Batches behind this one that were not used never will be: the next one takes the place of the first of them.
  void Drop(std::int64_t sequence);

  // Batches of a table of which something is kept.
  std::size_t kept(int table) { return CycleOf(table).kept.size(); }

 private:
  struct Kept {
    std::int64_t sequence;
    bool ends;
    std::vector<std::int64_t> ids;  // of a batch that ends no cycle, or of some that were used: distinct, ascending
  };
  struct Cycle {
    std::int64_t steps = 1;
    std::deque<Kept> kept;               // what the cycle of the next batch needs, also if batches are dropped
    std::vector<std::int64_t> restored;  // ids of a checkpoint
    std::int64_t restored_at = 0;        // the batch that got them; 0: none did
    std::int64_t before = 0;             // batches up to this one have another place than they would have now
  };

  struct Range {
    std::int64_t first, last;
  };

  Cycle& CycleOf(int table);
  std::int64_t Unused() const;
  void Forget(std::int64_t open);
  static std::vector<std::int64_t> DistinctIds(const Batch& batch, int table);
  static std::vector<std::int64_t> IdsOfLast(Cycle* cycle, std::int64_t sequence);

  std::int64_t count_ = 0;  // number of the last batch
  std::int64_t used_ = 0;
  std::deque<Range> counted_;  // batches that were not used, and are counted
  std::vector<Cycle> cycles_;  // by table
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CYCLE_IDS_H_
