// Cycles of gradient accumulation. An optimizer sums gradients over the batches of a cycle, and then updates the rows
// once.
//
// Rows are updated on the device, so the last batch of a cycle needs the rows of the whole cycle. Therefore the ids of
// the earlier batches are appended to the last batch. Appended ids belong to no feature and do not count as
// occurrences.
//
// Batches are counted when they are submitted. Batches that are still untrained when their iterator is dropped are
// removed from the count, because the number of these batches depends on thread timing.
#ifndef ASCPIPE_CORE_CYCLE_IDS_H_
#define ASCPIPE_CORE_CYCLE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace ascpipe {

class Batch;

// Position of a batch in the cycles of its tables.
struct CyclePlace {
  std::int64_t number = 0;          // number of the batch, from 1
  std::vector<std::int64_t> steps;  // [tables or fewer]: batches in a cycle of the table; 1: the table has no cycles

  std::int64_t StepsOf(int table) const {
    return static_cast<std::size_t>(table) < steps.size() ? steps[static_cast<std::size_t>(table)] : 1;
  }
  bool Ends(int table) const { return StepsOf(table) > 1 && number % StepsOf(table) == 0; }
};

// Counts the batches of a stream, and appends ids to the last batch of each cycle.
//
// `sequence` is the number of a ticket in its run, from 1.
class CycleIds {
 public:
  // Sets the number of batches in a cycle of a table, starting with the next batch. The table has no cycles if `steps`
  // is 1. `table` is the index of the table in the ring.
  void SetSteps(int table, std::int64_t steps);
  // Returns true if any table has cycles.
  bool Any() const;
  // Sets the number of batches that were trained before the next batch. Call SetBefore after a checkpoint was restored.
  // `open` is the last batch that a step may still use, or 0 if there is none.
  void SetBefore(std::int64_t batches, std::int64_t open);
  // Sets the distinct ids of the unfinished cycle of a checkpoint. The given ids replace the ids of used batches.
  void SetIds(int table, std::int64_t open, std::vector<std::int64_t> ids);
  // Returns true if SetBefore or SetIds changed the cycle of batch `sequence` after Pass had processed the batch. Only
  // tables with cycles of `steps` batches are considered.
  bool IsOfBefore(std::int64_t sequence, std::int64_t steps) const;

  // Processes the next batch of a stream. If the batch is the last batch of a cycle, Pass appends the distinct ids of
  // the cycle to the batch. `open` is the first earlier batch that a step may still use, or `sequence` if there is
  // none.
  CyclePlace Pass(std::int64_t sequence, std::int64_t open, Batch* batch);
  // Records that a step used batch `sequence`. Drop no longer removes batch `sequence` or earlier batches from the
  // count.
  void Use(std::int64_t sequence) { used_ = sequence > used_ ? sequence : used_; }
  // Removes the unused batches after batch `sequence` from the count. The next batch gets the number of the first
  // removed batch.
  void Drop(std::int64_t sequence);

  // Returns the number of id lists that are kept for a table.
  std::size_t kept(int table) { return CycleOf(table).kept.size(); }

 private:
  struct Kept {
    std::int64_t sequence;
    bool ends;
    std::vector<std::int64_t> ids;  // distinct ids of a batch inside a cycle, or of several used batches; ascending
  };
  struct Cycle {
    std::int64_t steps = 1;
    std::deque<Kept> kept;               // ids for the cycle of the next batch, even if batches are dropped
    std::vector<std::int64_t> restored;  // ids of a checkpoint
    std::int64_t restored_at = 0;        // number of the batch that got the restored ids; 0: none
    std::int64_t before = 0;             // batches up to this one were counted before SetBefore or SetIds
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
