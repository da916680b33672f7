// Order of the records of a training run. Decides which records each rank reads in each batch.
//
// The sequence of an epoch contains all records, in file order or permuted. With windows, the records are permuted only
// within each window of consecutive records. A global batch takes the next batch_size * ranks records of the sequence.
// Rank r reads batch_size records of the global batch, starting at index r * batch_size. Batches do not cross the end
// of an epoch. Records that do not fill a global batch at the end are dropped (drop_remainder), or become one or two
// smaller global batches:
//
// - A smaller batch is divided evenly: the parts of the ranks differ by at most one record, and lower ranks get the
//   larger parts.
// - No rank gets an empty batch. If fewer records than ranks would remain after a full global batch, this batch leaves
//   `ranks` records for one more batch. If batch_size is 1, or an epoch has fewer records than ranks, up to `ranks` - 1
//   records at the end of the sequence are dropped.
//
// All ranks have the same number of batches. A position consists of an epoch and the number of records of the epoch
// that all ranks together have consumed. Therefore a run may continue in the middle of an epoch with a different number
// of ranks and a different batch size, without repeating or losing records of the epoch.
#ifndef ASCPIPE_INPUT_BATCH_PLAN_H_
#define ASCPIPE_INPUT_BATCH_PLAN_H_

#include <cstdint>

#include "core/calls.gen.h"
#include "core/core_status.h"

namespace ascpipe {

struct EpochPosition {
  std::int64_t epoch;     // counted from 0
  std::int64_t consumed;  // records of the epoch's sequence that all ranks together have consumed
};

// Part of the sequence of an epoch.
struct SequencePart {
  std::int64_t first, count;
};

// Computes positions and record numbers. The results depend only on the arguments.
class BatchPlan {
 public:
  static constexpr std::int64_t kEndless = -1;                  // number of epochs
  static constexpr std::int64_t kMost = std::int64_t{1} << 61;  // of epochs, batches and batch_size

  // Returns kE334 if an argument is invalid, or if an epoch has no batch.
  static CoreStatus Check(const BatchPlanArguments& of);

  // The arguments must have passed Check.
  explicit BatchPlan(const BatchPlanArguments& arguments) : of_(arguments) {}

  // Returns the number of global batches in the rest of an epoch. `consumed` is between 0 and the number of records.
  std::int64_t BatchesAfter(std::int64_t consumed) const;

  // Moves a position forward by a number of global batches. A batch begins at the new position. Sets `is_end` if all
  // epochs have ended.
  CoreStatus Move(EpochPosition from, std::int64_t batches, EpochPosition* to, bool* is_end) const;

  // Returns a rank's part of the epoch's sequence, and the position after the global batch. `position` must be a result
  // of Move.
  SequencePart PartOf(EpochPosition position, std::int64_t rank, EpochPosition* next) const;

  // Writes the record numbers of a part of an epoch's sequence to `records`.
  void RecordsOf(std::int64_t epoch, SequencePart part, std::int64_t* records) const;

 private:
  std::int64_t full() const { return of_.batch_size * of_.ranks; }
  // Returns true if the last full global batch of `left` records leaves `ranks` records for one more batch.
  bool LeavesRecords(std::int64_t left) const;

  BatchPlanArguments of_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_BATCH_PLAN_H_
