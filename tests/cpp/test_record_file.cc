// Reader of TFRecord files: records are read as they were written, and damage is an error that says where it is.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "input/record_file.h"
#include "record_files.h"

using namespace ascpipe;
using check::Has;
using record_files::Folder;

namespace {

// The error of the first damaged record of a file with this content.
std::string ErrorOf(const std::string& path, const std::string& content) {
  record_files::Write(path, content);
  std::vector<std::string> records;
  return record_files::ReadAll(record_files::Open(path).get(), &records);
}

}  // namespace

TEST(RecordsAreReadAsTheyWereWritten) {
  const Folder directory;
  const std::string path = directory.path() + "/a.tfrecord";
  for (const int most : {0, 10, 500, 100000, 3000000}) {
    const auto records = record_files::RandomRecords(most > 1000 ? 40 : 3000, most, 1);
    const std::string content = record_files::Content(records);
    for (const std::string& file : {content, record_files::Gzip(content)}) {
      record_files::Write(path, file);
      std::vector<std::string> read;
      CHECK_EQ(record_files::ReadAll(record_files::Open(path).get(), &read), "");
      CHECK(read == records);
    }
  }
}

TEST(AnEmptyFileHasNoRecords) {
  const Folder directory;
  CHECK_EQ(ErrorOf(directory.path() + "/a", ""), "");
  CHECK_EQ(ErrorOf(directory.path() + "/a", record_files::Gzip("")), "");
}

TEST(GzipStreamsAreConcatenated) {
  const Folder directory;
  const auto records = record_files::RandomRecords(10, 50, 2);
  const std::string content = record_files::Content(records);
  const std::string path = directory.path() + "/a.gz";
  record_files::Write(path, record_files::Gzip(content.substr(0, 77)) + record_files::Gzip(content.substr(77)));
  std::vector<std::string> read;
  CHECK_EQ(record_files::ReadAll(record_files::Open(path).get(), &read), "");
  CHECK(read == records);
}

TEST(APlainFileThatBeginsLikeAGzipFileIsPlain) {
  const Folder directory;
  const std::vector<std::string> records = {std::string(0x8b1f, 'x')};
  record_files::Write(directory.path() + "/a", record_files::Content(records));
  const auto file = record_files::Open(directory.path() + "/a");
  CHECK(file->compression() == Compression::kNone);
  std::vector<std::string> read;
  CHECK_EQ(record_files::ReadAll(file.get(), &read), "");
  CHECK(read == records);
}

TEST(RecordsAreReadAtTheirPlacesInAnyOrder) {
  const Folder directory;
  const std::string path = directory.path() + "/a";
  const auto records = record_files::RandomRecords(2000, 3000, 3);
  record_files::Write(path, record_files::Content(records));
  const auto file = record_files::Open(path);
  std::vector<RecordPlace> places;
  for (bool is_end = false;;) {
    RecordPlace place;
    CHECK_EQ(file->Skip(&place, &is_end).text(), "");
    if (is_end) break;
    places.push_back(place);
  }
  CHECK_EQ(places.size(), records.size());
  std::mt19937 random(4);
  for (int i = 0; i < 5000; ++i) {
    const std::size_t number = random() % records.size();
    ByteRange data;
    CHECK_EQ(file->ReadAt(places[number], &data).text(), "");
    CHECK(std::string(data.data, data.size) == records[number]);
    for (std::size_t next = number + 1; random() % 3 != 0 && next < records.size(); ++next) {
      RecordPlace place;
      bool is_end;
      CHECK_EQ(file->Next(&place, &data, &is_end).text(), "");
      CHECK(!is_end && std::string(data.data, data.size) == records[next]);
      CHECK(place.number == places[next].number && place.offset == places[next].offset);
    }
  }
  RecordPlace wrong = places[5];
  wrong.bytes += 1;
  ByteRange data;
  CHECK(Has(file->ReadAt(wrong, &data).text(), "Build the index again"));
  for (const RecordPlace& place : {RecordPlace{0, -1, 20}, RecordPlace{0, 0, 15}, RecordPlace{0, 0, INT64_MAX},
                                   RecordPlace{0, INT64_MAX, 16}, RecordPlace{-1, 0, 16}}) {
    CHECK(Has(file->ReadAt(place, &data).text(), "E333: "));
  }
}

TEST(ErrorsHaveThePlaceAndBothValues) {
  const Folder directory;
  const std::string path = directory.path() + "/a";
  const std::string first = record_files::Record("first"), second = record_files::Record("second");
  const std::string before = path + ": record 1 at byte 21 is damaged: ";
  std::string damaged = first + second;
  damaged[21 + 12] ^= 1;
  CHECK(Has(ErrorOf(path, damaged), "E330: " + before + "the checksum of its 6 bytes of data is wrong: expected "));
  damaged = first + second;
  damaged[21] ^= 1;
  CHECK(Has(ErrorOf(path, damaged), before + "the checksum of its length (7) is wrong: expected "));
  CHECK(
      Has(ErrorOf(path, (first + second).substr(0, 30)), before + "expected a header of 12 bytes, found only 9 bytes"));
  CHECK(Has(ErrorOf(path, (first + second).substr(0, 40)),
            before + "expected 6 bytes of data and a checksum, but the file of 40 bytes ends 3 bytes too early"));
  CHECK(Has(ErrorOf(path, first + record_files::Header(std::uint64_t{1} << 40)),
            before + "its length is 1099511627776 bytes, and the limit is 1073741824"));
  CHECK(Has(ErrorOf(path, first + record_files::Header(1 << 30)), "too early"));
  CHECK(Has(ErrorOf(path, record_files::Gzip(first + record_files::Header(1 << 30))),
            "record 1 at byte 21 of the decompressed content is damaged: expected 1073741824 bytes of data"));
  CHECK(Has(ErrorOf(path, "this is a text file"), "Perhaps the file is not a TFRecord file"));
  CHECK(Has(ErrorOf(path, record_files::Gzip(first).substr(0, 20)), "is truncated: its GZIP stream continues"));
  CHECK(Has(ErrorOf(path, record_files::Gzip(first) + "rubbish"), "is not a valid GZIP stream"));
}

TEST(ARecordWithDamagedDataCanBeSkipped) {
  const Folder directory;
  const std::string path = directory.path() + "/a";
  std::string content = record_files::Content({"first", "second", "third"});
  content[21 + 12] ^= 1;
  for (const std::string& file : {content, record_files::Gzip(content)}) {
    record_files::Write(path, file);
    const auto reader = record_files::Open(path);
    std::vector<std::string> read;
    CHECK(Has(record_files::ReadAll(reader.get(), &read), "record 1 at byte 21"));
    CHECK(Has(record_files::ReadAll(reader.get(), &read), "record 1 at byte 21"));
    RecordPlace place;
    bool is_end;
    CHECK_EQ(reader->Skip(&place, &is_end).text(), "");
    CHECK_EQ(record_files::ReadAll(reader.get(), &read), "");
    CHECK((read == std::vector<std::string>{"first", "third"}));
  }
}

TEST(AFileThatChangesWhileItIsReadIsAnError) {
  const Folder directory;
  const std::string path = directory.path() + "/a";
  const std::string content = record_files::Content(record_files::RandomRecords(5000, 2000, 5));
  for (const bool shrinks : {true, false}) {
    record_files::Write(path, content);
    const auto file = record_files::Open(path);
    RecordPlace place;
    ByteRange data;
    bool is_end;
    CHECK_EQ(file->Next(&place, &data, &is_end).text(), "");
    CHECK_EQ(truncate(path.c_str(), static_cast<off_t>(content.size()) + (shrinks ? -1000 : 1000)), 0);
    std::vector<std::string> read;
    CHECK(Has(record_files::ReadAll(file.get(), &read), "E331: " + path + " has changed while it was read"));
  }
  record_files::Write(path, content);
  const auto file = record_files::Open(path);
  const timespec times[2] = {{5, 0}, {5, 0}};
  CHECK_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  std::vector<std::string> read;
  CHECK(Has(record_files::ReadAll(file.get(), &read), "modified at 5000000000 ns"));
}

TEST(OtherThanRegularFilesAreRefused) {
  const Folder directory;
  std::unique_ptr<RecordFile> file;
  const std::string fifo = directory.path() + "/fifo";
  CHECK_EQ(mkfifo(fifo.c_str(), 0600), 0);
  CHECK(Has(RecordFile::Open(fifo, Compression::kNone, &file).text(), "is not a regular file"));
  CHECK(Has(RecordFile::Open(directory.path(), Compression::kNone, &file).text(), "is not a regular file"));
  CHECK(Has(RecordFile::Open("/nothing", Compression::kNone, &file).text(), "E332: /nothing cannot be read: No such"));
}

// A mutated file must not crash the reader, and every record that is read is a record that was written.
TEST(MutatedFilesAreSafe) {
  const Folder directory;
  const std::string path = directory.path() + "/a";
  const auto records = record_files::RandomRecords(20, 60, 6);
  const std::string content = record_files::Content(records);
  std::mt19937 random(7);
  int whole = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string file = random() % 2 != 0 ? content : record_files::Gzip(content);
    for (unsigned changes = 1 + random() % 3; changes > 0 && !file.empty(); --changes) {
      const std::size_t at = random() % file.size();
      switch (random() % 5) {
        case 0:
          file.resize(at);
          break;
        case 1:
          file.erase(at, 1 + random() % 9);
          break;
        case 2:
          file.insert(at, 1, static_cast<char>(random()));
          break;
        case 3:
          file.replace(at, 12, record_files::Header(random()));
          break;
        default:
          file[at] = static_cast<char>(file[at] ^ 1 << random() % 8);
      }
    }
    record_files::Write(path, file);
    const auto reader = record_files::Open(path);
    std::vector<std::string> read;
    whole += record_files::ReadAll(reader.get(), &read).empty() ? 1 : 0;
    for (const std::string& record : read) {
      // A header is also a correct record of 8 bytes without its length.
      CHECK(record.size() == 8 || std::find(records.begin(), records.end(), record) != records.end());
    }
  }
  CHECK(whole < 1000);
}

namespace {

// Returns how often this process has called read or pread.
std::int64_t ReadCalls() {
  std::ifstream file("/proc/self/io");
  std::string name;
  for (std::int64_t count; file >> name >> count;) {
    if (name == "syscr:") return count;
  }
  return -1;
}

}  // namespace

TEST(RecordsInOrderAreReadInLargePieces) {
  const Folder folder;
  const std::string path = folder.path() + "/a";
  record_files::Write(path, record_files::Content(record_files::RandomRecords(5000, 800, 3)));
  std::vector<RecordPlace> places;
  const auto file = record_files::Open(path);
  RecordPlace place;
  ByteRange data;
  for (bool is_end = false; !is_end;) {
    CHECK_EQ(file->Next(&place, &data, &is_end).text(), "");
    if (!is_end) places.push_back(place);
  }
  CHECK_EQ(places.size(), 5000u);
  for (const std::size_t step : {1, 3}) {
    const auto again = record_files::Open(path);
    const std::int64_t before = ReadCalls();
    CHECK(before >= 0);
    for (std::size_t i = 0; i < places.size(); i += step) CHECK_EQ(again->ReadAt(places[i], &data).text(), "");
    CHECK(ReadCalls() - before < 30);
  }
}
