// Splits of bags.  Invalid splits are detected before any value is read with them.
#include <cstdint>

#include "check.h"
#include "core/bags.h"

using namespace ascpipe;

TEST(SplitsThatDoNotFitAreFound) {
  const std::int64_t good[] = {0, 0, 3, 3, 7}, late[] = {1, 1, 3, 3, 7}, falling[] = {0, 4, 3, 3, 7}, empty[] = {0};
  CHECK_EQ(FirstBadSplit(good, 4, 7), -1);
  CHECK_EQ(FirstBadSplit(good, 4, 8), 4);
  CHECK_EQ(FirstBadSplit(late, 4, 7), 0);
  CHECK_EQ(FirstBadSplit(falling, 4, 7), 2);
  CHECK_EQ(FirstBadSplit(empty, 0, 0), -1);
  CHECK_EQ(FirstBadSplit(empty, 0, 2), 0);
}
