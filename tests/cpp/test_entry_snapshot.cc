// Entries of a snapshot: the copied entries, overwritten by the images of entries that changed before the copy.
#include <cstring>
#include <vector>

#include "check.h"
#include "core/entry_snapshot.h"

using namespace ascpipe;

namespace {

constexpr std::int64_t kUsed = 40000;  // several blocks

// Segment of a table with entries and a log.  Entry i has key i.
struct Fixture {
  Fixture() : memory(512 + (kUsed + 10) * sizeof(layout::Entry) + 100 * sizeof(layout::Image)) {
    header()->entries_offset = 512;
    header()->log_offset = 512 + (kUsed + 10) * static_cast<std::int64_t>(sizeof(layout::Entry));
    header()->log_capacity = header()->snapshot_log_ready = 100;
    header()->entries_used = kUsed;
    header()->entry_capacity = kUsed + 10;
    for (std::int64_t i = 0; i < kUsed + 10; ++i) entries()[i].key = i;
    BeginSnapshot(*header(), header());
  }

  layout::Table* header() { return reinterpret_cast<layout::Table*>(memory.data()); }
  layout::Entry* entries() { return reinterpret_cast<layout::Entry*>(memory.data() + 512); }
  layout::Image* images() { return reinterpret_cast<layout::Image*>(memory.data() + header()->log_offset); }

  // Changes an entry like a worker.
  void Change(std::int64_t entry) {
    if (entry >= header()->snapshot_copied) {
      images()[header()->snapshot_logged] = {entry, entries()[entry]};
      ++header()->snapshot_logged;
    }
    entries()[entry].key = -1;
  }

  std::vector<char> memory;
};

CoreStatus Copied(Fixture* at, std::vector<layout::Entry>* out, const std::function<void()>& passed = [] {}) {
  out->resize(static_cast<std::size_t>(at->header()->snapshot_bound));
  return CopyEntries("user", *at->header(), at->header(), at->header()->snapshot_bound, out->data(), passed);
}

}  // namespace

TEST(ASnapshotHasNoMoreEntriesThanATableCanHave) {
  Fixture at;
  at.header()->entries_used = std::int64_t{1} << 60;
  BeginSnapshot(*at.header(), at.header());
  CHECK_EQ(at.header()->snapshot_bound, kUsed + 10);
  at.header()->entries_used = -5;
  BeginSnapshot(*at.header(), at.header());
  CHECK_EQ(at.header()->snapshot_bound, 0);
}

TEST(ASnapshotIsOnUntilItsLastEntryIsCopied) {
  Fixture at;
  CHECK_EQ(at.header()->snapshot_bound, kUsed);
  CHECK_EQ(at.header()->snapshot_copied, 0);
  CHECK_EQ(at.header()->snapshot_asked, 1);
  std::vector<layout::Entry> out;
  CHECK(Copied(&at, &out).ok());
  CHECK_EQ(at.header()->snapshot_copied, kUsed);
  for (std::int64_t i = 0; i < kUsed; ++i) CHECK_EQ(out[i].key, i);
}

TEST(EntriesThatChangeBeforeOrAfterTheyAreCopiedAreAsTheyWere) {
  Fixture at;
  at.Change(5);
  at.Change(kUsed - 1);
  std::int64_t block = 0;
  std::vector<layout::Entry> out;
  const CoreStatus status = Copied(&at, &out, [&] {
    at.Change(block);              // this entry is already copied
    at.Change(kUsed - 2 - block);  // this entry of the last block is not copied, except in the last round
    ++block;
  });
  CHECK(status.ok());
  CHECK(block > 2);
  for (std::int64_t i = 0; i < kUsed; ++i) CHECK_EQ(out[i].key, i);
}

TEST(AnotherSnapshotBeginsWithAnEmptyLog) {
  Fixture at;
  at.Change(5);
  EndSnapshot(at.header());
  CHECK_EQ(at.header()->snapshot_copied, kUsed);
  at.header()->entries_used = 10;
  BeginSnapshot(*at.header(), at.header());
  CHECK_EQ(at.header()->snapshot_logged, 0);
  CHECK_EQ(at.header()->snapshot_asked, 2);
  std::vector<layout::Entry> out;
  CHECK(Copied(&at, &out).ok());
  CHECK_EQ(out.size(), std::size_t{10});
  CHECK_EQ(out[5].key, -1);
}

TEST(ALogThatCannotBeIsRefused) {
  for (int damage = 0; damage < 3; ++damage) {
    Fixture at;
    at.Change(5);
    if (damage == 0) at.header()->snapshot_logged = 101;
    if (damage == 1) at.images()[0].entry = kUsed;
    if (damage == 2) at.images()[0].entry = -1;
    std::vector<layout::Entry> out;
    const CoreStatus status = Copied(&at, &out);
    CHECK_EQ(static_cast<int>(status.code()), static_cast<int>(Code::kDataLoss));
    CHECK(status.text().find("table 'user'") != std::string::npos);
  }
}
