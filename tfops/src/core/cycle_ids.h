// Cycles of gradient accumulation: an optimizer sums gradients over some batches, and then updates rows once.
//
// Rows are updated on the device, so the last batch of a cycle needs the rows of all of its batches.  It gets their ids
// behind its own: they belong to no feature, and do not count as occurrences.
#ifndef ASCPIPE_CORE_CYCLE_IDS_H_
#define ASCPIPE_CORE_CYCLE_IDS_H_

#include <cstdint>
#include <vector>

namespace ascpipe {

class Batch;

class CycleIds {
 public:
  // From the next batch on, cycles of a table have `steps` batches; 1: there are none.  `table`: index in the ring.
  void SetSteps(int table, std::int64_t steps);
  // How many batches were trained before the first one of this stream: their last cycle is continued.
  void SetBefore(std::int64_t batches) { before_ = batches; }
  // The distinct ids of that cycle, in the place of what was kept.
  void SetIds(int table, std::vector<std::int64_t> ids);

  // Takes the batches of a stream in their order; `sequence`: from 1 on.  The last batch of a cycle gets the distinct
  // ids of the others.  Returns of each table whether the batch is the last one of its cycle; [] = of none.
  std::vector<bool> Pass(std::int64_t sequence, Batch* batch);

 private:
  struct Cycle {
    std::int64_t steps = 1;
    std::vector<std::int64_t> ids;  // distinct, ascending
  };

  Cycle& CycleOf(int table);
  static void Keep(const Batch& batch, int table, std::vector<std::int64_t>* ids);

  std::int64_t before_ = 0;
  std::vector<Cycle> cycles_;  // by table
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_CYCLE_IDS_H_
