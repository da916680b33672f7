// Placement of frames in the arena, with positions set by hand.
#include "check.h"
#include "core/ring.h"

using ascpipe::Arena;

namespace {

// Places a frame and returns its position, or -1.
std::int64_t Place(Arena* arena, std::int64_t length) {
  std::int64_t position;
  if (!arena->Find(length, &position)) return -1;
  arena->Take(position, length);
  return position;
}

}  // namespace

TEST(FramesLieOneAfterTheOther) {
  Arena arena(1024);
  CHECK_EQ(Place(&arena, 256), 0);
  CHECK_EQ(Place(&arena, 512), 256);
  CHECK_EQ(Place(&arena, 256), 768);
  CHECK_EQ(Place(&arena, 64), -1);
}

TEST(AFrameThatDoesNotFitBeforeTheEndStartsAtTheBeginning) {
  Arena arena(1024);
  CHECK_EQ(Place(&arena, 512), 0);
  CHECK_EQ(Place(&arena, 256), 512);
  arena.Free();
  CHECK_EQ(Place(&arena, 320), 1024);  // the bytes 768 to 1024 are skipped
  CHECK_EQ(Place(&arena, 192), 1344);
  CHECK_EQ(Place(&arena, 64), -1);  // the frame at 512 still occupies its bytes
  arena.Free();
  CHECK_EQ(arena.head(), 1024);
  CHECK_EQ(Place(&arena, 512), 1536);
}

TEST(AFrameAsLargeAsTheArenaFitsWheneverItIsEmpty) {
  Arena arena(1024);
  arena.StartAt(640);  // in a used arena, there is not enough space to skip to 1024 and place 1024 bytes
  CHECK_EQ(Place(&arena, 1024), 1024);
  CHECK_EQ(arena.head(), 1024);
  arena.Free();
  CHECK_EQ(Place(&arena, 1024), 2048);
}

TEST(AFrameLargerThanTheArenaNeverFits) {
  Arena arena(1024);
  CHECK_EQ(Place(&arena, 1088), -1);
}

TEST(AnOddSizeIsRoundedDownToCacheLines) {
  Arena arena(1000);
  CHECK_EQ(arena.bytes(), 960);
}

TEST(PositionsPastTwoToTheFortyKeepTheirPlace) {
  Arena arena(1024);
  const std::int64_t start = (std::int64_t{1} << 40) + 896;
  arena.StartAt(start);
  CHECK_EQ(Place(&arena, 128), start);
  CHECK_EQ(Place(&arena, 896), start + 128);
  CHECK_EQ(Place(&arena, 64), -1);
}

TEST(EveryOrderOfSizesKeepsFramesApart) {
  Arena arena(1024);
  std::int64_t starts[64], lengths[64];
  int oldest = 0, newest = 0;
  unsigned state = 1;
  for (int round = 0; round < 20000; ++round) {
    state = state * 1664525u + 1013904223u;
    const std::int64_t length = 64 * (1 + (state >> 16) % 8);
    const std::int64_t position = newest - oldest < 64 ? Place(&arena, length) : -1;
    if (position < 0) {
      arena.Free();
      ++oldest;
      continue;
    }
    CHECK(position % 1024 + length <= 1024);
    for (int other = oldest; other < newest; ++other) {
      const std::int64_t from = starts[other % 64] % 1024, at = position % 1024;
      CHECK(at + length <= from || from + lengths[other % 64] <= at);
    }
    starts[newest % 64] = position;
    lengths[newest % 64] = length;
    ++newest;
  }
  CHECK(newest > 5000);
}

TEST(AnArenaGrowsBehindItsNewestFrameAndFramesStayWhereTheyAre) {
  Arena arena(1024);
  CHECK_EQ(Place(&arena, 640), 0);
  CHECK_EQ(Place(&arena, 640), -1);
  CHECK_EQ(arena.BytesFor(640), 1280);
  arena.Grow(1280);
  const std::int64_t second = Place(&arena, 640);
  CHECK_EQ(arena.OffsetOf(second), 640);
  arena.Free();
  const std::int64_t third = Place(&arena, 320);
  CHECK_EQ(third, 1280);  // the next lap begins after the added bytes
  CHECK_EQ(arena.OffsetOf(third), 0);
}

TEST(AnArenaDoesNotGrowWhileFramesLieAtItsEndAndAtItsBeginning) {
  Arena arena(1024);
  Place(&arena, 512);
  Place(&arena, 512);
  arena.Free();
  CHECK_EQ(Place(&arena, 256), 1024);
  CHECK_EQ(Place(&arena, 512), -1);
  CHECK_EQ(arena.BytesFor(512), 0);
  arena.Free();  // frees the frame at the end
  CHECK_EQ(arena.BytesFor(1024), 1280);
}

TEST(AnEmptyArenaGrowsToTheLengthOfTheFrame) {
  Arena arena(1024);
  arena.StartAt(640);
  CHECK_EQ(Place(&arena, 2048), -1);
  CHECK_EQ(arena.BytesFor(2048), 2048);
  arena.Grow(2048);
  const std::int64_t position = Place(&arena, 2048);
  CHECK_EQ(arena.OffsetOf(position), 0);
  CHECK_EQ(arena.tail() - arena.head(), 2048);
}

TEST(EveryOrderOfSizesAndGrowthsKeepsFramesApart) {
  unsigned state = 7;
  const auto below = [&state](int most) {
    state = state * 1664525u + 1013904223u;
    return static_cast<std::int64_t>((state >> 16) % most);
  };
  int growths = 0;
  for (int run = 0; run < 40; ++run) {
    Arena arena(512);
    std::int64_t offsets[64], lengths[64];
    int oldest = 0, newest = 0;
    for (int round = 0; round < 2000; ++round) {
      const std::int64_t length = 64 * (1 + below(8 + round / 50));
      std::int64_t position = newest - oldest < 64 ? Place(&arena, length) : -1;
      const std::int64_t needed = position < 0 ? arena.BytesFor(length) : 0;
      if (needed > 0 && (length > arena.bytes() || below(8) == 0)) {
        CHECK(needed > arena.bytes());
        arena.Grow(needed + 64 * below(4));
        position = Place(&arena, length);
        CHECK(position >= 0);
        ++growths;
      }
      if (position < 0) {
        CHECK(newest > oldest);  // otherwise the test would wait forever
        arena.Free();
        ++oldest;
        continue;
      }
      const std::int64_t offset = arena.OffsetOf(position);
      CHECK(offset >= 0 && offset + length <= arena.bytes());
      for (int other = oldest; other < newest; ++other) {
        const std::int64_t from = offsets[other % 64];
        CHECK(offset + length <= from || from + lengths[other % 64] <= offset);
      }
      offsets[newest % 64] = offset;
      lengths[newest % 64] = length;
      ++newest;
      if (below(3) == 0) {
        arena.Free();
        ++oldest;
      }
    }
  }
  CHECK(growths > 500);
}
