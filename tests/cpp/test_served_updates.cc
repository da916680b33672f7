// Updates of served rows: which are applied, which are refused, and that readers see one version.
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "served_updates.h"

using namespace ascpipe;
using namespace served;

namespace {

const float kGone = std::nanf("");

ServedAt At(std::int64_t sequence, int checkpoint) { return {sequence, 10 * checkpoint, Id(checkpoint)}; }

// Returns the plan as text: "applied numbers/refused number".
std::string Plan(const ServedAt& at, const std::vector<UpdateInfo>& updates) {
  const UpdatePlan plan = PlanUpdates(at, updates);
  std::string text;
  for (const std::size_t one : plan.apply) text += std::to_string(one);
  return text + "/" + (plan.refused < 0 ? "" : std::to_string(plan.refused)) +
         (plan.sequence > 0 ? " contains " + std::to_string(plan.sequence) : "");
}

struct Watched {
  explicit Watched(const std::string& directory, int checkpoint = 1) : watch(directory, 1000, At(0, checkpoint)) {
    watch.Add("one", Table({{1, 10}, {2, 10}}, false));
    watch.Add("two", Table({{1, 10}}, false));
    watch.Start();
  }
  std::vector<float> Values(const std::string& table) const {
    return served::Values(watch.Current()->tables.at(table), {1, 2, 3});
  }
  std::int64_t step() const { return watch.Current()->at.step; }

  UpdateWatch watch;
};

using Floats = std::vector<float>;

}  // namespace

TEST(OnlyNamesOfUpdatesAreParsed) {
  UpdateName name;
  CHECK(ParseUpdateName("update-0000000000000012.delta", &name));
  CHECK_EQ(name.sequence, 12);
  CHECK(!name.is_full);
  CHECK(ParseUpdateName("update-9999999999999999.full", &name));
  CHECK(name.is_full);
  for (const char* other :
       {"", ".lock", ".tmp-update-0000000000000012.delta", "update-000000000000012.delta",
        "update-0000000000000012.deltas", "update-00000000000000a2.full", "update-", "update-0000000000000012"}) {
    CHECK(!ParseUpdateName(other, &name));
  }
}

TEST(DeltasAreAppliedInOrderAndTheNewestFullUpdateFirst) {
  CHECK_EQ(Plan(At(5, 1), {Info(5, 0, 1), Info(6, 1, 2), Info(7, 2, 3)}), "12/");
  CHECK_EQ(Plan(At(5, 1), {Info(6, 1, 2), Info(7, -1, 3), Info(8, 3, 4)}), "12/");
  CHECK_EQ(Plan(At(5, 1), {Info(6, -1, 0)}), "0/");  // a training that was started again has smaller steps
  CHECK_EQ(Plan(At(5, 1), {Info(3, -1, 0), Info(4, 0, 3)}), "/");
  CHECK_EQ(Plan(At(5, 1), {}), "/");
}

TEST(ADeltaThatDoesNotFollowIsRefused) {
  CHECK_EQ(Plan(At(5, 1), {Info(6, 2, 3)}), "/0");
  CHECK_EQ(Plan(At(5, 1), {Info(6, 1, 2), Info(8, 3, 4), Info(9, 4, 5)}), "0/1");
  CHECK_EQ(Plan(At(5, 1), {Info(6, 2, 3), Info(7, -1, 4), Info(9, 5, 6)}), "1/2");
}

TEST(AServerThatStartsContinuesFromItsExport) {
  const std::vector<UpdateInfo> updates = {Info(1, -1, 0), Info(2, 0, 1), Info(3, 1, 2)};
  CHECK_EQ(Plan(At(0, 1), updates), "2/ contains 2");
  CHECK_EQ(Plan(At(0, 2), updates), "/ contains 3");
  CHECK_EQ(Plan(At(0, 0), updates), "12/ contains 1");
  CHECK_EQ(Plan(At(0, 1), {Info(3, 1, 2)}), "0/");
}

TEST(AServerThatStartsWithAnotherExportNeedsAFullUpdateAndALaterStep) {
  const std::vector<UpdateInfo> updates = {Info(1, -1, 2), Info(2, 2, 3)};
  CHECK_EQ(Plan(At(0, 1), updates), "01/");
  CHECK_EQ(Plan(At(0, 4), updates), "/");
  CHECK_EQ(Plan({0, 25, Id(9)}, updates), "01/");
  CHECK_EQ(Plan(At(0, 1), {Info(2, 2, 3)}), "/0");
}

TEST(LayersHaveTheRowsOfADictionary) {
  Changes wanted;
  for (std::int64_t key = 0; key < 500; ++key) wanted[key] = static_cast<float>(key + 1);
  LayeredRows rows(Table(wanted, false));
  std::vector<std::int64_t> keys;
  for (std::int64_t key = -10; key < 1500; ++key) keys.push_back(key);
  std::uint64_t state = 3;
  for (int update = 0; update < 300; ++update) {
    Changes changes;
    const int count = update % 7 == 0 ? 90 : update % 5;
    for (int change = 0; change < count; ++change) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      const std::int64_t key = static_cast<std::int64_t>((state >> 33) % 1400);
      changes[key] = (state >> 20) % 3 == 0 ? kGone : static_cast<float>(update * 1000 + change + 1);
    }
    for (const auto& change : changes) {
      if (change.second != change.second) {
        wanted.erase(change.first);
      } else {
        wanted[change.first] = change.second;
      }
    }
    bool changed = false;
    rows = rows.With(Table(changes, true), &changed);
    CHECK(changed);
    CHECK(rows.layer_count() <= 9);
    CHECK(rows.layer_keys() < 2 * 1400);
    if (update % 20 != 0) continue;
    const Floats found = Values(rows, keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const auto row = wanted.find(keys[i]);
      if (found[i] != (row == wanted.end() ? -1 : row->second)) CHECK_EQ(found[i], row->second);
    }
  }
}

TEST(DeletedKeysThatTheBaseDoesNotHaveAreForgotten) {
  LayeredRows rows(Table({{1, 10}}, false));
  bool changed = false;
  for (std::int64_t key = 100; key < 200; ++key) {
    rows = rows.With(Table({{key, 5}, {1, 6}}, true), &changed).With(Table({{key, kGone}, {1, kGone}}, true), &changed);
  }
  CHECK(rows.layer_keys() <= 4);
  CHECK(Values(rows, {1, 150, 199}) == Floats({-1, -1, -1}));
}

TEST(AllTablesChangeTogetherAndTheStepWithThem) {
  Directory directory;
  Watched served(directory.path());
  CHECK_EQ(served.step(), 10);
  CHECK(served.Values("one") == Floats({10, 10, -1}));
  const auto before = served.watch.Current();
  directory.Write(Info(7, 1, 2), {{2, 20}, {3, 20}}, {{1, kGone}});
  CHECK_EQ(served.step(), 10);
  served.watch.Poll();
  CHECK_EQ(served.step(), 20);
  CHECK(served.Values("one") == Floats({10, 20, 20}));
  CHECK(served.Values("two") == Floats({-1, -1, -1}));
  CHECK(Values(before->tables.at("one"), {1, 2, 3}) == Floats({10, 10, -1}));  // a step keeps its version
  directory.Write(Info(8, -1, 3), {{3, 30}}, {{2, 30}});
  directory.Write(Info(9, 3, 4), {{1, 40}}, {});
  served.watch.Poll();
  CHECK_EQ(served.step(), 40);
  CHECK(served.Values("one") == Floats({40, -1, 30}));
  CHECK(served.Values("two") == Floats({-1, 30, -1}));
  const UpdateWatch::Figures figures = served.watch.figures();
  CHECK_EQ(figures.applied, 3);
  CHECK_EQ(figures.refused, 0);
  CHECK_EQ(figures.kept_keys, 1);
}

TEST(AServerThatStartsLaterHasTheNewestVersion) {
  Directory directory;
  directory.Write(Info(1, -1, 1), {{1, 10}}, {{1, 10}});
  directory.Write(Info(2, 1, 2), {{1, 20}}, {});
  CHECK_EQ(Watched(directory.path()).step(), 20);
  CHECK(Watched(directory.path()).Values("one") == Floats({20, 10, -1}));  // from the files of the model
  CHECK(Watched(directory.path(), 0).Values("one") == Floats({20, -1, -1}));
  CHECK_EQ(Watched(directory.path(), 5).step(), 50);
}

TEST(ATableThatIsAddedLaterHasTheVersionOfTheOthers) {
  Directory directory;
  directory.Write(Info(2, 1, 2), {{1, 20}}, {{1, 21}});
  UpdateWatch watch(directory.path(), 1000, At(0, 1));
  watch.Add("one", Table({{1, 10}}, false));
  watch.Start();
  watch.Add("two", Table({{1, 10}}, false));
  CHECK_EQ(watch.Current()->tables.count("two"), 0u);
  watch.Start();
  CHECK(Values(watch.Current()->tables.at("two"), {1}) == Floats({21}));
  CHECK(Values(watch.Current()->tables.at("one"), {1}) == Floats({20}));
}

TEST(AMissingUpdateIsAppliedWhenItArrives) {
  Directory directory;
  Watched served(directory.path());
  directory.Write(Info(8, 2, 3), {{1, 30}}, {});
  served.watch.Poll();
  served.watch.Poll();
  CHECK_EQ(served.step(), 10);
  CHECK_EQ(served.watch.figures().refused, 1);
  CHECK(check::Has(served.watch.figures().problem, "E342: Update " + directory.path()));
  CHECK(
      check::Has(served.watch.figures().problem, "changes the rows of step 20, but the rows before it are of step 10"));
  directory.Write(Info(7, 1, 2), {{2, 20}}, {});
  served.watch.Poll();
  CHECK_EQ(served.step(), 30);
  CHECK(served.Values("one") == Floats({30, 20, -1}));
}

TEST(ADamagedUpdateIsRefusedOnceAndAppliedWhenItIsCopiedAgain) {
  Directory directory;
  Watched served(directory.path());
  const UpdateInfo info = Info(7, 1, 2);
  const Bytes whole = UpdateBytes(info, {{1, 20}, {2, kGone}}, {{3, 20}});
  std::int64_t refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    Bytes damaged = whole;
    damaged[at] ^= static_cast<std::uint8_t>(1 << (at % 8));
    directory.Write(Directory::NameOf(info), damaged);
    served.watch.Poll();
    CHECK_EQ(served.watch.figures().refused, ++refused);
    directory.Write(Directory::NameOf(info), Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(at)));
    served.watch.Poll();
    served.watch.Poll();  // the file is not read again
    CHECK_EQ(served.watch.figures().refused, ++refused);
    CHECK_EQ(served.step(), 10);
    if (check::Failures() > 0) return;
  }
  CHECK(check::Has(served.watch.figures().problem, "E341: Update " + directory.path()));
  directory.Write(Directory::NameOf(info), whole);
  served.watch.Poll();
  CHECK_EQ(served.step(), 20);
  CHECK(served.Values("one") == Floats({20, -1, -1}));
}

TEST(UpdatesOfOtherModelsAreRefused) {
  Directory directory;
  UpdateWatch watch(directory.path(), 1000, At(0, 1));
  watch.Add("three", Table({{1, 10}}, false));
  watch.Start();
  directory.Write(Info(7, 1, 2), {}, {});
  watch.Poll();
  CHECK(check::Has(watch.figures().problem, "it does not contain table 'three'"));
  UpdateWatch nothing(directory.path() + "/none", 1000, At(0, 1));
  nothing.Add("one", Table({{1, 10}}, false));
  nothing.Start();
  nothing.Poll();
  CHECK_EQ(nothing.figures().refused, 0);
  CHECK(check::Has(nothing.figures().problem, "cannot be read: No such file"));
  CHECK_EQ(nothing.Current()->at.step, 10);
}

TEST(ReadersSeeOneVersionWhileTheThreadAppliesUpdates) {
  Directory directory;
  UpdateWatch watch(directory.path(), 0.001, At(0, 0));
  watch.Add("one", Table({{1, 0}, {2, 0}}, false));
  watch.Add("two", Table({{1, 0}}, false));
  watch.Start();
  constexpr int kUpdates = 40;
  std::atomic<int> bad{0};
  const auto read = [&watch, &bad] {
    std::int64_t step = 0;
    while (step < 10 * kUpdates) {
      const auto version = watch.Current();
      const Floats one = Values(version->tables.at("one"), {1, 2}), two = Values(version->tables.at("two"), {1});
      const float wanted = static_cast<float>(version->at.step);
      if (one[0] != wanted || one[1] != wanted || two[0] != wanted || version->at.step < step) bad.fetch_add(1);
      step = version->at.step;
    }
  };
  std::thread readers[2] = {std::thread(read), std::thread(read)};
  for (int update = 1; update <= kUpdates; ++update) {
    const float value = static_cast<float>(10 * update);
    directory.Write(Info(update, update - 1, update), {{1, value}, {2, value}}, {{1, value}});
  }
  for (std::thread& reader : readers) reader.join();
  CHECK_EQ(bad.load(), 0);
}
