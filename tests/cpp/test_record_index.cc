// Index of a TFRecord file: places are those of the records, and an index that is damaged or stale is refused.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "check.h"
#include "input/record_index.h"
#include "record_files.h"

using namespace ascpipe;
using check::Has;
using record_files::Folder;

namespace {

CoreStatus Build(const std::string& data, const std::string& index, std::int64_t step = 1 << 20) {
  std::unique_ptr<RecordIndexWriter> writer;
  CoreStatus status = RecordIndexWriter::Begin(data, TfRecordFormat(), index, &writer);
  for (bool is_done = false; status.ok() && !is_done;) status = writer->Step(step, &is_done);
  return status;
}

FileStamp StampOf(const std::string& path) {
  std::unique_ptr<DataFile> file;
  CHECK_EQ(DataFile::Open(path, &file).text(), "");
  return file->stamp();
}

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

TEST(AnIndexHasThePlaceOfEachRecord) {
  const Folder directory;
  const std::string path = directory.path() + "/a", at = directory.path() + "/a.index";
  for (const int count : {0, 1, 63, 64, 65, 5000}) {
    for (const int most : {0, 300, 40000}) {
      const auto records = record_files::RandomRecords(most > 1000 ? std::min(count, 500) : count, most, 1);
      record_files::Write(path, record_files::Content(records));
      CHECK_EQ(Build(path, at, 1 + most * 7).text(), "");
      CHECK_EQ(directory.Names().size(), 2u);
      std::unique_ptr<RecordIndex> index;
      CHECK_EQ(RecordIndex::Open(at, StampOf(path), TfRecordFormat(), &index).text(), "");
      const std::int64_t size = static_cast<std::int64_t>(records.size());
      CHECK_EQ(index->records(), size);
      std::vector<RecordPlace> places(records.size() + 1);
      CHECK_EQ(index->Find(0, size, places.data()).text(), "");
      const auto file = record_files::Open(path);
      for (std::int64_t i = 0; i < size; ++i) {
        CHECK_EQ(places[i].number, i);
        ByteRange data;
        CHECK_EQ(file->ReadAt(places[i], &data).text(), "");
        CHECK(std::string(data.data, data.size) == records[i]);
        RecordPlace one;
        CHECK_EQ(index->Find(i, 1, &one).text(), "");
        CHECK(one.offset == places[i].offset && one.bytes == places[i].bytes);
      }
      CHECK(Has(index->Find(size, 1, places.data()).text(), "records that begin with record"));
      CHECK(Has(index->Find(-1, 1, places.data()).text(), "records that begin with record"));
      CHECK(Has(index->Find(1, INT64_MAX, places.data()).text(), "records that begin with record"));
    }
  }
}

TEST(AnIndexOfAnotherFileIsRefused) {
  const Folder directory;
  const std::string path = directory.path() + "/a", at = directory.path() + "/a.index";
  record_files::Write(path, record_files::Content(record_files::RandomRecords(100, 50, 2)));
  CHECK_EQ(Build(path, at).text(), "");
  const FileStamp stamp = StampOf(path);
  std::unique_ptr<RecordIndex> index;
  CHECK(Has(RecordIndex::Open(at, {stamp.bytes + 1, stamp.modified_ns}, TfRecordFormat(), &index).text(),
            "E333: the index "));
  CHECK(Has(RecordIndex::Open(at, {stamp.bytes, stamp.modified_ns + 1}, TfRecordFormat(), &index).text(),
            "it was built from a file of"));
  CHECK(Has(RecordIndex::Open(at + "x", stamp, TfRecordFormat(), &index).text(), "No such file"));
  CHECK(Has(RecordIndex::Open(directory.path(), stamp, TfRecordFormat(), &index).text(), "it has no header"));
  CHECK(Has(RecordIndex::Open(path, stamp, TfRecordFormat(), &index).text(), "it is not an index file"));
}

TEST(ADamagedIndexIsRefused) {
  const Folder directory;
  const std::string path = directory.path() + "/a", at = directory.path() + "/a.index";
  record_files::Write(path, record_files::Content(record_files::RandomRecords(150, 50, 3)));
  CHECK_EQ(Build(path, at).text(), "");
  const std::string whole = TextOf(at);
  const FileStamp stamp = StampOf(path);
  std::mt19937 random(4);
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    const std::size_t place = random() % text.size();
    switch (random() % 3) {
      case 0:
        text.resize(place);
        break;
      case 1:
        text.insert(place, 1 + random() % 300, static_cast<char>(random()));
        break;
      default:
        text[place] = static_cast<char>(text[place] ^ 1 << random() % 8);
    }
    record_files::Write(at, text);
    std::unique_ptr<RecordIndex> index;
    CHECK(Has(RecordIndex::Open(at, stamp, TfRecordFormat(), &index).text(), "E333: the index ") || text == whole);
  }
  // Checksums are right, but the header has another number of records.
  for (const std::int64_t records : {std::int64_t{0}, std::int64_t{149}, std::int64_t{151}, INT64_MAX, INT64_MIN}) {
    std::string text = whole;
    std::memcpy(&text[offsetof(IndexHeader, records)], &records, sizeof(records));
    const std::uint32_t checksum = Crc32c(text.data(), offsetof(IndexHeader, checksum));
    std::memcpy(&text[offsetof(IndexHeader, checksum)], &checksum, sizeof(checksum));
    record_files::Write(at, text);
    std::unique_ptr<RecordIndex> index;
    CHECK(Has(RecordIndex::Open(at, stamp, TfRecordFormat(), &index).text(), "records"));
  }
}

TEST(AnIndexThatIsNotCompleteDoesNotAppear) {
  const Folder directory;
  const std::string path = directory.path() + "/a", at = directory.path() + "/a.index";
  std::string content = record_files::Content(record_files::RandomRecords(1000, 50, 5));
  content[content.size() / 2] ^= 1;
  content.resize(content.size() - 1);
  record_files::Write(path, content);
  CHECK(Has(Build(path, at).text(), "E330: "));
  CHECK_EQ(directory.Names().size(), 1u);
  {
    std::unique_ptr<RecordIndexWriter> writer;
    bool is_done;
    CHECK_EQ(RecordIndexWriter::Begin(path, TfRecordFormat(), at, &writer).text(), "");
    CHECK_EQ(writer->Step(1000, &is_done).text(), "");
    CHECK(!is_done);
    CHECK_EQ(directory.Names().size(), 2u);
  }
  CHECK_EQ(directory.Names().size(), 1u);
  CHECK(Has(Build(path, directory.path() + "/nothing/a.index").text(), "cannot be written: No such file"));
  record_files::Write(path, record_files::Gzip("x"));
  CHECK(Has(Build(path, at).text(), "E330: "));
  CHECK_EQ(directory.Names().size(), 1u);
}

TEST(TheIndexOfAChangedFileIsNotWritten) {
  const Folder directory;
  const std::string path = directory.path() + "/a", at = directory.path() + "/a.index";
  record_files::Write(path, record_files::Content(record_files::RandomRecords(1000, 50, 6)));
  std::unique_ptr<RecordIndexWriter> writer;
  CHECK_EQ(RecordIndexWriter::Begin(path, TfRecordFormat(), at, &writer).text(), "");
  bool is_done;
  CHECK_EQ(writer->Step(1000, &is_done).text(), "");
  CHECK_EQ(truncate(path.c_str(), StampOf(path).bytes + 1), 0);
  CHECK(Has(writer->Step(1 << 30, &is_done).text(), "E331: "));
  writer.reset();
  CHECK_EQ(directory.Names().size(), 1u);
}

TEST(OnlyTheLengthsOfLargeRecordsAreRead) {
  const Folder directory;
  const std::string path = directory.path() + "/a", at = directory.path() + "/a.index";
  std::string content = record_files::Content(record_files::RandomRecords(3, 100, 7));
  const std::string large = record_files::Record(std::string(1 << 22, 'x'));
  for (int i = 0; i < 8; ++i) content += large;
  content[content.size() - large.size() / 2] ^= 1;  // damaged data does not matter
  record_files::Write(path, content);
  const auto file = record_files::Open(path);
  CHECK_EQ(Build(path, at).text(), "");
  std::unique_ptr<RecordIndex> index;
  CHECK_EQ(RecordIndex::Open(at, StampOf(path), TfRecordFormat(), &index).text(), "");
  CHECK_EQ(index->records(), 11);
}
