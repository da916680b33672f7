// Batch plan and permutation: the properties of a few examples. tests/unit/data compares both with their twins.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"
#include "input/batch_plan.h"
#include "input/permutation.h"

using namespace ascpipe;
using check::Has;

namespace {

BatchPlanArguments Arguments(std::int64_t records, std::int64_t batch_size, std::int64_t ranks) {
  BatchPlanArguments arguments = BatchPlanArguments();
  arguments.records = records;
  arguments.epochs = 1;
  arguments.batch_size = batch_size;
  arguments.ranks = ranks;
  return arguments;
}

// Sizes of the global batches of an epoch.
std::vector<std::int64_t> Sizes(const BatchPlanArguments& arguments) {
  CHECK_EQ(BatchPlan::Check(arguments).text(), "");
  const BatchPlan plan(arguments);
  std::vector<std::int64_t> sizes;
  EpochPosition position = {0, 0};
  for (bool is_end = false;;) {
    CHECK_EQ(plan.Move(position, 0, &position, &is_end).text(), "");
    if (is_end) return sizes;
    EpochPosition next;
    plan.PartOf(position, 0, &next);
    sizes.push_back(next.consumed - position.consumed);
    position = next;
  }
}

}  // namespace

TEST(APermutationHasEachNumberOnce) {
  for (std::int64_t count = 1; count < 300; ++count) {
    const Permutation permutation(7, 3, count);
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(permutation.At(i));
    std::sort(numbers.begin(), numbers.end());
    for (std::int64_t i = 0; i < count; ++i) CHECK_EQ(numbers[i], i);
  }
}

TEST(NumbersOfAHugePermutationAreInRange) {
  for (const std::int64_t count : {INT64_MAX, (std::int64_t{1} << 62) + 1, std::int64_t{1} << 32}) {
    const Permutation permutation(UINT64_MAX, UINT64_MAX, count);
    for (std::int64_t i = 0; i < 1000; ++i) {
      const std::int64_t number = permutation.At(count - 1 - i);
      CHECK(number >= 0 && number < count);
    }
  }
}

TEST(TheEndOfAnEpochHasSmallerBatches) {
  CHECK((Sizes(Arguments(12, 2, 3)) == std::vector<std::int64_t>{6, 6}));
  CHECK((Sizes(Arguments(16, 2, 3)) == std::vector<std::int64_t>{6, 6, 4}));
  CHECK((Sizes(Arguments(13, 2, 3)) == std::vector<std::int64_t>{6, 4, 3}));  // 1 record is too few for 3 ranks
  CHECK((Sizes(Arguments(8, 1, 3)) == std::vector<std::int64_t>{3, 3}));      // 2 records are dropped
  CHECK((Sizes(Arguments(13, 2, 1)) == std::vector<std::int64_t>{2, 2, 2, 2, 2, 2, 1}));
  BatchPlanArguments dropping = Arguments(13, 2, 3);
  dropping.drop_remainder = 1;
  CHECK((Sizes(dropping) == std::vector<std::int64_t>{6, 6}));
}

TEST(WrongArgumentsAreRefused) {
  CHECK(Has(BatchPlan::Check(Arguments(10, 0, 1)).text(), "E334: A batch cannot have 0 records"));
  CHECK(Has(BatchPlan::Check(Arguments(10, 1, 0)).text(), "on each of 0 ranks"));
  CHECK(Has(BatchPlan::Check(Arguments(10, INT64_MAX, INT64_MAX)).text(), "product"));
  CHECK(Has(BatchPlan::Check(Arguments(2, 4, 3)).text(), "The data has 2 records"));
  CHECK(Has(BatchPlan::Check(Arguments(-1, 1, 1)).text(), "The data has -1 records"));
  BatchPlanArguments arguments = Arguments(11, 4, 3);
  arguments.drop_remainder = 1;
  CHECK(Has(BatchPlan::Check(arguments).text(), "needs at least 12"));
  arguments = Arguments(10, 1, 1);
  arguments.epochs = -2;
  CHECK(Has(BatchPlan::Check(arguments).text(), "The number of epochs is -2"));
  const BatchPlan plan(Arguments(10, 1, 1));
  EpochPosition to;
  bool is_end;
  for (const EpochPosition& from : {EpochPosition{-1, 0}, EpochPosition{0, 11}, EpochPosition{0, -1}}) {
    CHECK(Has(plan.Move(from, 0, &to, &is_end).text(), "an epoch has 10 records"));
  }
  CHECK(Has(plan.Move({0, 0}, -1, &to, &is_end).text(), "E334: There is no batch -1"));
}

TEST(FarPositionsDoNotOverflow) {
  BatchPlanArguments arguments = Arguments(INT64_MAX, 4096, 64);
  arguments.epochs = BatchPlan::kEndless;
  arguments.shuffles = 1;
  const BatchPlan plan(arguments);
  EpochPosition position;
  bool is_end;
  CHECK_EQ(plan.Move({BatchPlan::kMost, 0}, BatchPlan::kMost, &position, &is_end).text(), "");
  CHECK(!is_end && position.epoch > BatchPlan::kMost);
  EpochPosition next;
  const SequencePart part = plan.PartOf({3, INT64_MAX - 100}, 63, &next);
  CHECK(next.consumed == INT64_MAX && part.first + part.count == INT64_MAX && part.count == 1);
  std::int64_t records[8];
  plan.RecordsOf(3, part, records);
  CHECK(records[0] >= 0);
}
