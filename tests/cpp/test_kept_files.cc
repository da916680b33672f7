// Files in memory: the same records and errors as from the disk, no byte beyond the end, and bounded memory.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "input/kept_files.h"
#include "input/record_set.h"
#include "record_files.h"

using namespace ascpipe;
using check::Has;
using record_files::Folder;

namespace {

const RecordFormat kCsv = TextFormat(',', true, true);

// Texts with one number each, some of them with line ends in quotes, after a header.
std::vector<std::string> Texts(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    std::string text = std::to_string(i) + "," + std::string(random() % 3000, 'x');
    if (i % 7 == 0) text += ",\"a\r\n,\"\"b\n\"";
    texts.push_back(text);
  }
  return texts;
}

std::string Lines(const std::vector<std::string>& texts) {
  std::string content = "header\n";
  for (const std::string& text : texts) content += text + "\r\n";
  return content;
}

void Index(const RecordSet::Source& source) {
  std::unique_ptr<RecordIndexWriter> writer;
  CHECK_EQ(RecordIndexWriter::Begin(source.path, source.format, source.index_path, &writer).text(), "");
  for (bool is_done = false; !is_done;) CHECK_EQ(writer->Step(1 << 20, &is_done).text(), "");
}

// A TFRecord file and a text file of 600 records each, with a small file between them.
struct Files {
  explicit Files(const Folder& folder) {
    Add(folder.path() + "/a", TfRecordFormat(), record_files::RandomRecords(600, 3000, 1));
    Add(folder.path() + "/b", TfRecordFormat(), record_files::RandomRecords(5, 3000, 2));
    Add(folder.path() + "/c", kCsv, Texts(600, 3));
    CHECK_EQ(RecordSet::Open(sources, &set).text(), "");
  }

  void Add(const std::string& path, const RecordFormat& format, const std::vector<std::string>& written) {
    record_files::Write(path, IsText(format) ? Lines(written) : record_files::Content(written));
    RecordSet::Source source;
    source.path = path;
    source.index_path = path + ".index";
    source.format = format;
    Index(source);
    sources.push_back(source);
    records.insert(records.end(), written.begin(), written.end());
  }

  std::vector<std::string> records;
  std::vector<RecordSet::Source> sources;
  std::unique_ptr<RecordSet> set;
};

// Returns every tenth number below `most`, in any order. No read fetches two of these records together.
std::vector<std::int64_t> Apart(std::int64_t most, std::mt19937* random) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 0; number < most; number += 10) numbers.push_back(number);
  std::shuffle(numbers.begin(), numbers.end(), *random);
  return numbers;
}

std::unique_ptr<DataFile> Opened(const std::string& path) {
  std::unique_ptr<DataFile> data;
  CHECK_EQ(DataFile::Open(path, &data).text(), "");
  return data;
}

std::unique_ptr<DataFile> Sparse(const Folder& folder, const char* name, std::int64_t bytes) {
  const std::string path = folder.path() + "/" + name;
  record_files::Write(path, "");
  CHECK_EQ(truncate(path.c_str(), bytes), 0);
  return Opened(path);
}

// Changes a byte of a file, whose time of modification does not tell it.
void ChangeByte(const std::string& path, std::int64_t offset) {
  struct stat before;
  CHECK_EQ(stat(path.c_str(), &before), 0);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const int byte = file.get();
  file.seekp(offset);
  file.put(static_cast<char>(~byte));
  file.close();
  const timespec times[2] = {before.st_atim, before.st_mtim};
  CHECK_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

}  // namespace

TEST(AFileIsKeptAfterReadsThatTakeAsLongAsReadingIt) {
  const Folder folder;
  const std::string path = folder.path() + "/a";
  const std::string content = record_files::Content(record_files::RandomRecords(300, 3000, 5));
  record_files::Write(path, content);
  const auto data = Opened(path);
  const std::int64_t enough = data->stamp().bytes / 8192;
  KeptFiles kept(1);
  CHECK(kept.Find(0, *data, 0) == nullptr);
  CHECK(kept.Find(0, *data, enough) == nullptr);
  const char* const found = kept.Find(0, *data, 1);
  CHECK(found != nullptr && std::string(found, content.size()) == content);
  CHECK(kept.Find(0, *data, 0) == found);
}

TEST(AFileThatHasChangedIsNotKept) {
  const Folder folder;
  for (const std::string& now : {std::string("shorter"), std::string(100000, 'x')}) {
    const std::string path = folder.path() + "/a";
    record_files::Write(path, std::string(50000, 'x'));
    const auto data = Opened(path);
    record_files::Write(path, now);
    KeptFiles kept(1);
    CHECK(kept.Find(0, *data, 100) == nullptr);
    record_files::Write(path, std::string(50000, 'x'));
    CHECK(kept.Find(0, *data, 100) == nullptr);  // it is not tried again
  }
}

TEST(FilesAreKeptUpToALimitOfTheProcessAndTheirMemoryIsFreed) {
  const Folder folder;
  const auto large = Sparse(folder, "large", KeptFiles::kMostBytes + 1);
  const auto most = Sparse(folder, "most", KeptFiles::kMostBytes - 10), small = Sparse(folder, "small", 11);
  KeptFiles first(2);
  CHECK(first.Find(0, *large, KeptFiles::kMostBytes) == nullptr);
  {
    KeptFiles second(1);
    CHECK(second.Find(0, *small, 1) != nullptr);
    CHECK(first.Find(1, *most, KeptFiles::kMostBytes) == nullptr);
  }
  KeptFiles third(1);
  CHECK(third.Find(0, *most, KeptFiles::kMostBytes) != nullptr);
  KeptFiles fourth(1);
  CHECK(fourth.Find(0, *small, 1) == nullptr);
}

TEST(AFileIsKeptOnlyIfItNeedsAtMostAQuarterOfTheAvailableMemory) {
  const Folder folder;
  const auto data = Sparse(folder, "a", 1 << 20);
  MemoryPlaces places;
  places.meminfo = folder.path() + "/meminfo";
  places.own_groups = folder.path() + "/no_groups";
  for (const int kibibytes : {4095, 4096}) {
    record_files::Write(places.meminfo, "MemAvailable: " + std::to_string(kibibytes) + " kB\n");
    KeptFiles kept(1, places);
    CHECK_EQ(kept.Find(0, *data, 1000) != nullptr, kibibytes == 4096);
  }
}

TEST(RecordsOfKeptFilesAreTheSameAndAreNotCopied) {
  const Folder folder;
  const Files files(folder);
  std::mt19937 random(7);
  RecordSetReader readers[2] = {RecordSetReader(*files.set), RecordSetReader(*files.set)};
  std::vector<ByteRange> records, others;
  for (int turn = 0; turn < 20; ++turn) {
    const std::vector<std::int64_t> numbers = Apart(1205, &random);
    CHECK_EQ(readers[turn % 2].Read(numbers, &records).text(), "");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK(std::string(records[i].data, records[i].size) == files.records[static_cast<std::size_t>(numbers[i])]);
    }
  }
  const std::vector<std::int64_t> numbers = {1204, 0, 602, 604, 1, 1204, 700};
  CHECK_EQ(readers[0].Read(numbers, &records).text(), "");
  CHECK_EQ(readers[1].Read(numbers, &others).text(), "");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CHECK(std::string(records[i].data, records[i].size) == files.records[static_cast<std::size_t>(numbers[i])]);
    CHECK(records[i].data == others[i].data);
  }
}

TEST(AKeptFileThatChangesIsAnErrorOfEachBatch) {
  const Folder folder;
  const Files files(folder);
  std::mt19937 random(7);
  std::vector<ByteRange> records;
  RecordSetReader reader(*files.set);
  for (int turn = 0; turn < 10; ++turn) CHECK_EQ(reader.Read(Apart(1205, &random), &records).text(), "");
  std::ofstream(files.sources[2].path, std::ios::app) << "1,more\r\n";
  for (int turn = 0; turn < 2; ++turn) {
    CHECK_EQ(reader.Read({0, 10}, &records).text(), "");
    const std::string error = reader.Read({0, 1000}, &records).text();
    CHECK(Has(error, "E331") && Has(error, files.sources[2].path));
  }
  RecordSetReader other(*files.set);
  CHECK(Has(other.Read({1000}, &records).text(), "E331"));
  CHECK_EQ(truncate(files.sources[0].path.c_str(), 100), 0);
  CHECK(Has(reader.Read({0, 10}, &records).text(), "E331"));
}

TEST(ADamagedRecordOfAKeptFileIsAnErrorAndTheOthersAreRead) {
  const Folder folder;
  const Files files(folder);
  std::int64_t offset = 0;
  for (int i = 0; i < 100; ++i)
    offset += static_cast<std::int64_t>(files.records[static_cast<std::size_t>(i)].size()) + 16;
  ChangeByte(files.sources[0].path, offset + 12);
  std::mt19937 random(3);
  RecordSetReader reader(*files.set);
  std::vector<ByteRange> records;
  for (int turn = 0; turn < 10; ++turn) {
    std::vector<std::int64_t> numbers = Apart(600, &random);
    numbers.erase(std::find(numbers.begin(), numbers.end(), 100));
    CHECK_EQ(reader.Read(numbers, &records).text(), "");
    const std::string error = reader.Read({7, 100, 300}, &records).text();
    CHECK(Has(error, "E330") && Has(error, "record 100 at byte " + std::to_string(offset)));
  }
}

// A damaged index may have any place. Content, places and lengths are changed, and the memory of the content ends with
// its last byte, so that the address sanitizer finds each read beyond it.
TEST(AnyPlaceOfADamagedKeptFileHasTheResultOfTheDisk) {
  const Folder folder;
  std::mt19937 random(11);
  const std::string path = folder.path() + "/a";
  int good = 0, bad = 0;
  for (int turn = 0; turn < 400; ++turn) {
    const RecordFormat format = turn % 2 == 0 ? TfRecordFormat() : kCsv;
    std::vector<std::string> written = record_files::RandomRecords(20, 60, turn);
    if (turn % 2 == 1) written = Texts(20, turn);
    std::string content = turn % 2 == 0 ? record_files::Content(written) : Lines(written);
    for (unsigned i = 0; i < random() % 4; ++i) content[random() % content.size()] = static_cast<char>(random());
    if (turn % 5 == 0) content.resize(random() % content.size());
    record_files::Write(path, content);
    std::unique_ptr<RecordReader> readers[2];
    const bool opens = RecordReader::Open(path, format, Compression::kNone, &readers[0]).ok() &&
                       RecordReader::Open(path, format, Compression::kNone, &readers[1]).ok();
    if (!opens) continue;
    const std::unique_ptr<char[]> kept(new char[content.size()]);
    std::memcpy(kept.get(), content.data(), content.size());
    readers[1]->Keep(kept.get());
    const auto size = static_cast<std::int64_t>(content.size());
    std::int64_t offset = IsText(format) ? 7 : 0;
    for (int i = 0; i < 60; ++i) {
      const std::int64_t whole = static_cast<std::int64_t>(written[i % 20].size()) + (IsText(format) ? 2 : 16);
      RecordPlace place = {i % 20, offset, whole};
      const std::int64_t any[] = {-1,       0,
                                  size - 1, size,
                                  size + 1, std::int64_t{1} << 62,
                                  -size,    static_cast<std::int64_t>(random() % (content.size() + 2))};
      if (random() % 4 == 0) place.offset = any[random() % 8];
      if (random() % 4 == 0) place.bytes = any[random() % 8];
      offset = i % 20 == 19 ? (IsText(format) ? 7 : 0) : offset + whole;
      readers[1]->Prefetch(place);
      ByteRange data[2] = {{nullptr, 0}, {nullptr, 0}};
      const CoreStatus status = readers[0]->ReadAt(place, &data[0]);
      CHECK_EQ(readers[1]->ReadAt(place, &data[1]).text(), status.text());
      CHECK(std::string(data[0].data, data[0].size) == std::string(data[1].data, data[1].size));
      CHECK_EQ(readers[0]->position(), readers[1]->position());
      ++(status.ok() ? good : bad);
    }
  }
  CHECK(good > 5000 && bad > 5000);
}

TEST(ThreadsReadTheSameRecordsWhileAFileIsKept) {
  const Folder folder;
  for (int turn = 0; turn < 5; ++turn) {
    const Files files(folder);
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&files, thread] {
        std::mt19937 random(thread);
        RecordSetReader reader(*files.set);
        std::vector<ByteRange> records;
        for (int batch = 0; batch < 20; ++batch) {
          const std::vector<std::int64_t> numbers = Apart(1205, &random);
          CHECK_EQ(reader.Read(numbers, &records).text(), "");
          for (std::size_t i = 0; i < numbers.size(); ++i) {
            CHECK(std::string(records[i].data, records[i].size) == files.records[static_cast<std::size_t>(numbers[i])]);
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}
