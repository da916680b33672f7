// Lengths of lists, counted in the repetition levels of a Parquet column.
#include <cstdint>
#include <vector>

#include "check.h"
#include "rows/list_levels.h"

using namespace ascpipe;

namespace {

// Returns the number of values of the batch with the most values, or -1 if the levels are damaged.
std::int64_t Most(const std::vector<std::vector<std::uint8_t>>& pages, std::int64_t count, std::int64_t batch_lists) {
  ListBatches batches{0, 0, 0};
  for (const std::vector<std::uint8_t>& page : pages) {
    const std::vector<std::uint8_t> exact(page.begin(), page.end());  // a sanitizer finds reads beyond its end
    if (!CountLists(exact.data(), static_cast<std::int64_t>(exact.size()), count, batch_lists, &batches)) return -1;
  }
  return batches.most;
}

}  // namespace

TEST(RunsAndGroupsOfLevelsAreCounted) {
  CHECK_EQ(Most({{20, 0}}, 10, 4), 4);                    // ten lists of one value
  CHECK_EQ(Most({{2, 0, 18, 1}}, 10, 4), 10);             // one list of ten values
  CHECK_EQ(Most({{3, 0xEE, 4, 1}}, 10, 1), 6);            // lists of 4 and 6 values
  CHECK_EQ(Most({{3, 0xEE, 4, 1}}, 10, 2), 10);           //
  CHECK_EQ(Most({{5, 0xEE, 0xFE, 0}}, 10, 1), 4);         // the last group is cut after lists of 4, 4 and 2 values
  CHECK_EQ(Most({{2, 0, 6, 1}, {4, 1, 4, 0}}, 4, 1), 6);  // a list continues on the next page
}

TEST(DamagedLevelsAreFound) {
  for (const std::vector<std::uint8_t>& page : std::vector<std::vector<std::uint8_t>>{
           {}, {4}, {0, 0}, {1, 0}, {18, 0}, {3}, {3, 7}, {128, 128, 128, 128, 128, 128}, {128}}) {
    CHECK_EQ(Most({page}, 10, 3), -1);
  }
}
