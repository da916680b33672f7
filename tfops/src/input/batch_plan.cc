#include "input/batch_plan.h"

#include <algorithm>

#include "core/error_codes.gen.h"
#include "core/splitmix.h"
#include "input/permutation.h"

namespace ascpipe {

constexpr std::int64_t BatchPlan::kEndless;
constexpr std::int64_t BatchPlan::kMost;

CoreStatus BatchPlan::Check(const BatchPlanArguments& of) {
  if (of.batch_size < 1 || of.ranks < 1 || of.batch_size > kMost / of.ranks) {
    return Error(kE334, "A batch cannot have ", of.batch_size, " records on each of ", of.ranks,
                 " ranks: both must be at least 1, and their product at most ", kMost);
  }
  if (of.epochs != kEndless && (of.epochs < 0 || of.epochs > kMost)) {
    return Error(kE334, "The number of epochs is ", of.epochs, ": it must be between 0 and ", kMost, ", or ", kEndless,
                 " for an endless dataset");
  }
  const std::int64_t least = of.drop_remainder != 0 ? of.batch_size * of.ranks : of.ranks;
  if (of.records < least) {
    return Error(kE334, "The data has ", of.records, " records, but a batch of all ranks needs at least ", least,
                 ": the batch size is ", of.batch_size, " and the number of ranks is ", of.ranks,
                 of.drop_remainder != 0 ? ". Use more data, a smaller batch or drop_remainder=False"
                                        : ". Use more data or fewer ranks");
  }
  return CoreStatus();
}

bool BatchPlan::LeavesRecords(std::int64_t left) const {
  const std::int64_t rest = left % full();
  return of_.drop_remainder == 0 && of_.batch_size > 1 && left > full() && rest > 0 && rest < of_.ranks;
}

std::int64_t BatchPlan::BatchesAfter(std::int64_t consumed) const {
  const std::int64_t left = of_.records - consumed;
  const std::int64_t whole = left / full();
  if (of_.drop_remainder != 0) return whole;
  return whole + (left % full() >= of_.ranks || LeavesRecords(left) ? 1 : 0);
}

CoreStatus BatchPlan::Move(EpochPosition from, std::int64_t batches, EpochPosition* to, bool* is_end) const {
  if (from.epoch < 0 || from.epoch > kMost || from.consumed < 0 || from.consumed > of_.records || batches < 0 ||
      batches > kMost) {
    return Error(kE334, "There is no batch ", batches, " after ", from.consumed, " records of epoch ", from.epoch,
                 ": an epoch has ", of_.records, " records. Continue with the data that the position belongs to");
  }
  const std::int64_t here = BatchesAfter(from.consumed);
  if (batches >= here) {
    const std::int64_t per_epoch = BatchesAfter(0);
    batches -= here;
    from = {from.epoch + 1 + batches / per_epoch, 0};
    batches %= per_epoch;
  }
  *is_end = of_.epochs != kEndless && from.epoch >= of_.epochs;
  const std::int64_t left = of_.records - from.consumed;
  // If the epoch ends with two smaller batches, the first of these batches leaves `ranks` records for the second.
  const bool is_last = batches > 0 && batches + 1 == BatchesAfter(from.consumed);
  from.consumed = is_last && LeavesRecords(left) ? of_.records - of_.ranks : from.consumed + batches * full();
  *to = from;
  return CoreStatus();
}

SequencePart BatchPlan::PartOf(EpochPosition position, std::int64_t rank, EpochPosition* next) const {
  const std::int64_t left = of_.records - position.consumed;
  const bool leaves = LeavesRecords(left) && left / full() == 1;
  const std::int64_t all = leaves ? left - of_.ranks : std::min(left, full());
  *next = {position.epoch, position.consumed + all};
  const std::int64_t each = all / of_.ranks, larger = all % of_.ranks;  // the first `larger` ranks get one more
  return {position.consumed + rank * each + std::min(rank, larger), each + (rank < larger ? 1 : 0)};
}

void BatchPlan::RecordsOf(std::int64_t epoch, SequencePart part, std::int64_t* records) const {
  if (of_.shuffles == 0) {
    for (std::int64_t i = 0; i < part.count; ++i) records[i] = part.first + i;
    return;
  }
  const std::int64_t window = of_.window > 0 ? of_.window : of_.records;
  for (std::int64_t i = 0; i < part.count;) {
    const std::int64_t number = (part.first + i) / window, first = number * window;
    const std::int64_t size = std::min(window, of_.records - first);
    // Each window has a separate seed. Window 0 uses the seed of the run.
    const std::uint64_t seed = number == 0 ? of_.seed : Mix(of_.seed + kGolden * static_cast<std::uint64_t>(number));
    const Permutation permutation(seed, static_cast<std::uint64_t>(epoch), size);
    for (; i < part.count && part.first + i < first + size; ++i) {
      records[i] = first + permutation.At(part.first + i - first);
    }
  }
}

}  // namespace ascpipe
