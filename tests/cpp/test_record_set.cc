// Records of several files as one sequence: any records in any order, and files that change are errors.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "input/record_set.h"
#include "record_files.h"

using namespace ascpipe;
using check::Has;
using record_files::Folder;

namespace {

struct Files {
  // Writes a file for each number of records, and its index. If `zipped` is 2, every second file is compressed.
  Files(const Folder& folder, const std::vector<int>& counts, std::size_t zipped = 99) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::string path = folder.path() + "/" + std::to_string(i);
      const auto written = record_files::RandomRecords(counts[i], 3000, static_cast<int>(i));
      const std::string content = record_files::Content(written);
      record_files::Write(path, (i + 1) % zipped == 0 ? record_files::Gzip(content) : content);
      records.insert(records.end(), written.begin(), written.end());
      sources.push_back({path, path + ".index"});
      std::unique_ptr<RecordIndexWriter> writer;
      CHECK_EQ(RecordIndexWriter::Begin(path, TfRecordFormat(), path + ".index", &writer).text(), "");
      for (bool is_done = false; !is_done;) CHECK_EQ(writer->Step(1 << 20, &is_done).text(), "");
    }
  }

  std::vector<std::string> records;
  std::vector<RecordSet::Source> sources;
};

std::vector<std::string> Strings(const std::vector<ByteRange>& records) {
  std::vector<std::string> strings;
  for (const ByteRange& record : records) strings.emplace_back(record.data, record.size);
  return strings;
}

void ReadInAnyOrder(const Files& files) {
  std::unique_ptr<RecordSet> set;
  CHECK_EQ(RecordSet::Open(files.sources, &set).text(), "");
  CHECK_EQ(set->records(), static_cast<std::int64_t>(files.records.size()));
  RecordSetReader reader(*set);
  std::mt19937 random(1);
  std::vector<std::int64_t> all(files.records.size());
  std::iota(all.begin(), all.end(), std::int64_t{0});
  for (int turn = 0; turn < 200; ++turn) {
    if (turn % 2 == 1) std::shuffle(all.begin(), all.end(), random);
    if (turn % 2 == 0) std::sort(all.begin(), all.end());
    const std::size_t first = random() % all.size(), count = random() % (all.size() - first + 1);
    std::vector<std::int64_t> numbers(all.begin() + first, all.begin() + first + count);
    if (turn % 5 == 0 && count > 0) numbers.push_back(numbers[0]);  // a record may be read twice
    std::vector<std::string> expected;
    for (const std::int64_t number : numbers) expected.push_back(files.records[number]);
    std::vector<ByteRange> records;
    CHECK_EQ(reader.Read(numbers, &records).text(), "");
    CHECK(Strings(records) == expected);
  }
}

}  // namespace

TEST(AnyRecordsAreReadInAnyOrder) {
  const Folder folder;
  ReadInAnyOrder(Files(folder, {300, 0, 1, 64, 500, 0}));
}

TEST(AnyRecordsOfCompressedFilesAreReadInAnyOrder) {
  const Folder folder;
  ReadInAnyOrder(Files(folder, {300, 0, 1, 64, 500, 0}, 2));
}

TEST(AFileThatChangesWhileItIsReadIsAnError) {
  const Folder folder;
  const Files files(folder, {20, 20});
  std::unique_ptr<RecordSet> set;
  CHECK_EQ(RecordSet::Open(files.sources, &set).text(), "");
  RecordSetReader reader(*set);
  std::vector<ByteRange> records;
  CHECK_EQ(reader.Read({0, 1, 2}, &records).text(), "");
  record_files::Write(files.sources[1].path, record_files::Content(record_files::RandomRecords(21, 3000, 9)));
  CHECK_EQ(reader.Read({3, 4}, &records).text(), "");  // of the other file
  const std::string error = reader.Read({5, 25}, &records).text();
  CHECK(Has(error, "E331") && Has(error, files.sources[1].path) && Has(error, "has changed while"));
  CHECK_EQ(reader.Read({3, 4}, &records).text(), "");

  std::unique_ptr<RecordSet> again;
  CHECK(Has(RecordSet::Open(files.sources, &again).text(), "Build it again"));
}

TEST(AMissingFileOrIndexIsAnError) {
  const Folder folder;
  Files files(folder, {5});
  std::unique_ptr<RecordSet> set;
  files.sources[0].index_path += "x";
  CHECK(Has(RecordSet::Open(files.sources, &set).text(), "E333"));
  files.sources[0].path += "x";
  CHECK(Has(RecordSet::Open(files.sources, &set).text(), "E332"));
  CHECK(set == nullptr);
}
