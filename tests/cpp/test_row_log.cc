// A save reads home rows as they were at its start, while steps change the rows.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "check.h"
#include "core/row_log.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kFloats = 5;
constexpr std::int64_t kRows = 2000;

// Each float of row r is r, until Change changes the row.
struct Fixture {
  explicit Fixture(std::int64_t images = kRows) : memory(kRows * kFloats) {
    for (std::int64_t i = 0; i < kRows * kFloats; ++i) memory[i] = static_cast<float>(i / kFloats);
    HomeRows home;
    home.data = memory.data();
    home.row_floats = kFloats;
    home.ready = kRows;
    CHECK(RowLog::Make("user", home, kRows, images * kFloats * 4, &log).ok());
  }

  void KeepAndChange(const std::vector<std::int32_t>& homes) {
    log->Keep(homes.data(), homes.data(), 0, static_cast<std::int64_t>(homes.size()));
    for (std::int32_t home : homes) Change(home);
  }

  void Change(std::int64_t home) {
    for (std::int64_t i = 0; i < kFloats; ++i) memory[home * kFloats + i] = -1.0f;
  }

  // Returns true if the log returns the old values of these rows.
  bool Reads(const std::vector<std::int32_t>& homes) {
    std::vector<float> out(homes.size() * kFloats);
    log->Read(homes.data(), static_cast<std::int64_t>(homes.size()), out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (out[i] != static_cast<float>(homes[i / kFloats])) return false;
    }
    return true;
  }

  std::vector<float> memory;
  std::unique_ptr<RowLog> log;
};

}  // namespace

TEST(AnImageIsReadInPlaceOfARowThatHasChanged) {
  Fixture at;
  at.KeepAndChange({3, 1999, 0});
  CHECK(at.Reads({0, 1, 2, 3}));
  CHECK(at.Reads({1999}));
}

TEST(ARowIsKeptOnceHoweverOftenItChanges) {
  Fixture at;
  at.KeepAndChange({7});
  at.KeepAndChange({7, 8});
  CHECK_EQ(at.log->kept(), 2);
  CHECK(at.Reads({8, 7}));
}

TEST(ARowThatWasReadOrIsNotWantedIsNotKept) {
  Fixture at;
  CHECK(at.Reads({4}));
  const std::int32_t wanted[] = {5, 6};
  at.log->WantOnly(wanted, 2);
  at.KeepAndChange({4, 5, 9});
  const std::int32_t none[] = {-1};
  at.log->Keep(none, none, 0, 1);
  CHECK_EQ(at.log->kept(), 1);
  CHECK(at.Reads({5, 6}));
}

TEST(AnImageThatWasKeptBeforeItIsKnownWhatIsWantedStays) {
  Fixture at;
  at.KeepAndChange({5, 9});
  const std::int32_t wanted[] = {5, 6};
  at.log->WantOnly(wanted, 2);
  CHECK(at.Reads({5, 6}));
}

TEST(ARowThatHadNoMemoryWhenTheSaveBeganIsNotKept) {
  Fixture at;
  const std::int32_t homes[] = {kRows, kRows + 5};
  at.log->Keep(homes, homes, 0, 2);
  CHECK_EQ(at.log->kept(), 0);
}

TEST(ARowIsKeptUnderTheNumberOfItsEntryWhicheverHomeRowItIsIn) {
  Fixture at;
  const std::int32_t entry = 12, first = 3, second = 4;
  at.log->Keep(&entry, &first, 0, 1);
  at.Change(first);
  at.log->Keep(&entry, &second, 0, 1);  // the row has moved in the meantime
  CHECK_EQ(at.log->kept(), 1);
  float row[kFloats] = {};
  at.log->Settle(entry, row);
  for (float value : row) CHECK_EQ(value, 3.0f);
}

TEST(ARowThatWasSettledOrIsNotWantedIsNotToBeRead) {
  Fixture at;
  const std::int32_t wanted[] = {5, 6};
  at.log->WantOnly(wanted, 2);
  CHECK(!at.log->IsToRead(4));
  CHECK(at.log->IsToRead(5));
  float row[kFloats] = {2.0f};
  at.log->Settle(5, row);  // no step has changed the row
  CHECK_EQ(row[0], 2.0f);
  CHECK(!at.log->IsToRead(5));
  const std::int32_t entry = 5, home = 7;
  at.log->Keep(&entry, &home, 0, 1);
  CHECK_EQ(at.log->kept(), 0);
}

TEST(TheLogHasRoomForAsManyImagesAsItWasGivenMemoryFor) {
  Fixture at(10);
  CHECK(at.log->HasRoom(10));
  CHECK(!at.log->HasRoom(11));
  at.KeepAndChange({1, 2, 3});
  CHECK(at.log->HasRoom(7));
  CHECK(!at.log->HasRoom(8));
}

TEST(ALogWithRoomForEveryRowHasRoomForAnyBatch) {
  Fixture at;
  for (std::int32_t home = 0; home < kRows; ++home) at.KeepAndChange({home});
  CHECK_EQ(at.log->kept(), kRows);
  CHECK(at.log->HasRoom(10 * kRows));
}

TEST(ALogOfLittleMemoryHasRoomForOneImage) {
  Fixture at(0);
  CHECK(at.log->HasRoom(1));
  CHECK(!at.log->HasRoom(2));
}

TEST(AReaderBesideThreadsThatChangeRowsSeesThemAsTheyWere) {
  for (int round = 0; round < 20; ++round) {
    Fixture at;
    std::vector<std::int32_t> homes(kRows);
    for (std::int32_t i = 0; i < kRows; ++i) homes[i] = (i * 7 + round) % kRows;
    std::atomic<int> ready{0};
    std::vector<std::thread> changers;
    for (int part = 0; part < 2; ++part) {
      changers.emplace_back([&, part] {
        ++ready;
        while (ready < 3) {
        }
        for (std::int64_t i = part; i < kRows; i += 2) at.KeepAndChange({static_cast<std::int32_t>((i * 11) % kRows)});
      });
    }
    ++ready;
    while (ready < 3) {
    }
    CHECK(at.Reads(homes));
    for (std::thread& changer : changers) changer.join();
    CHECK_EQ(at.memory[0], -1.0f);
  }
}
