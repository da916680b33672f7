// Text files as records: plain and compressed files, places, and sets of files of several formats.
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "input/record_set.h"
#include "input/text_file.h"
#include "record_files.h"

using namespace ascpipe;
using check::Has;
using record_files::Folder;

namespace {

const RecordFormat kCsv = TextFormat(',', true, false), kCsvWithHeader = TextFormat(',', true, true);

// Random records, some of which have quoted line ends.
std::vector<std::string> RandomTexts(int count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    std::string text(random() % 400, 'x');
    if (random() % 4 == 0) text += ",\"a\n,\"\"b\r\n\"";
    texts.push_back(text);
  }
  return texts;
}

std::string Lines(const std::vector<std::string>& texts, const std::string& line_end) {
  std::string content;
  for (const std::string& text : texts) content += text + line_end;
  return content;
}

std::vector<std::string> ReadAll(RecordReader* reader) {
  std::vector<std::string> read;
  for (;;) {
    RecordPlace place;
    ByteRange data;
    bool is_end = false;
    CHECK_EQ(reader->Next(&place, &data, &is_end).text(), "");
    if (is_end) return read;
    CHECK_EQ(place.number, static_cast<std::int64_t>(read.size()));
    read.emplace_back(data.data, data.size);
  }
}

void Index(const std::string& path, const RecordFormat& format) {
  std::unique_ptr<RecordIndexWriter> writer;
  CHECK_EQ(RecordIndexWriter::Begin(path, format, path + ".index", &writer).text(), "");
  for (bool is_done = false; !is_done;) CHECK_EQ(writer->Step(1 << 20, &is_done).text(), "");
}

}  // namespace

TEST(TextsAreReadAsTheyWereWritten) {
  const Folder folder;
  const std::string path = folder.path() + "/data";
  const std::vector<std::string> texts = RandomTexts(9000, 1);  // larger than the buffer
  for (const std::string line_end : {"\n", "\r\n", "\r"}) {
    const std::string content = Lines(texts, line_end);
    for (const std::string& file : {content, record_files::Gzip(content)}) {
      record_files::Write(path, file);
      std::unique_ptr<RecordReader> reader;
      CHECK_EQ(RecordReader::Open(path, kCsv, Compression::kDetect, &reader).text(), "");
      CHECK(ReadAll(reader.get()) == texts);
    }
  }
}

TEST(AnyTextsOfASetAreReadInAnyOrder) {
  const Folder folder;
  const std::string with_header = folder.path() + "/0", without = folder.path() + "/1", records = folder.path() + "/2";
  std::vector<std::string> all = RandomTexts(500, 2);
  record_files::Write(with_header, "label,\"a\nb\"\r\n" + Lines(all, "\r\n"));
  const std::vector<std::string> more = RandomTexts(300, 3);
  std::string content = Lines(more, "\n");
  content.pop_back();  // the last line end may be missing
  record_files::Write(without, content);
  all.insert(all.end(), more.begin(), more.end());
  const std::vector<std::string> last = record_files::RandomRecords(50, 100, 4);
  record_files::Write(records, record_files::Content(last));
  all.insert(all.end(), last.begin(), last.end());
  Index(with_header, kCsvWithHeader);
  Index(without, kCsv);
  Index(records, TfRecordFormat());

  std::unique_ptr<RecordSet> set;
  std::vector<RecordSet::Source> sources = {{with_header, with_header + ".index", kCsvWithHeader},
                                            {without, without + ".index", kCsv},
                                            {records, records + ".index"}};
  CHECK_EQ(RecordSet::Open(sources, &set).text(), "");
  CHECK_EQ(set->records(), static_cast<std::int64_t>(all.size()));
  RecordSetReader reader(*set);
  std::mt19937 random(5);
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<std::int64_t> numbers(random() % 100);
    for (std::int64_t& number : numbers) number = static_cast<std::int64_t>(random() % all.size());
    std::vector<ByteRange> read;
    CHECK_EQ(reader.Read(numbers, &read).text(), "");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK(std::string(read[i].data, read[i].size) == all[static_cast<std::size_t>(numbers[i])]);
    }
  }
  sources[0].format = kCsv;
  CHECK(Has(RecordSet::Open(sources, &set).text(), "it was built for the format text"));
}

TEST(AnyBytesAreRecordsOrAnError) {
  const Folder folder;
  const std::string path = folder.path() + "/data";
  std::mt19937 random(6);
  for (int turn = 0; turn < 500; ++turn) {
    std::string content(random() % 60, ' ');
    for (char& byte : content) byte = "\"\",\n\ra\xff"[random() % 7];
    record_files::Write(path, content);
    std::unique_ptr<RecordReader> reader;
    CHECK_EQ(RecordReader::Open(path, kCsv, Compression::kNone, &reader).text(), "");
    std::vector<RecordPlace> places;
    std::vector<std::string> read;
    std::int64_t bytes = 0;
    CoreStatus status;
    for (bool is_end = false; status.ok() && !is_end;) {
      RecordPlace place;
      ByteRange data;
      status = reader->Next(&place, &data, &is_end);
      if (!status.ok() || is_end) continue;
      CHECK_EQ(place.offset, bytes);
      bytes += place.bytes;
      places.push_back(place);
      read.emplace_back(data.data, data.size);
    }
    CHECK(status.ok() ? bytes == static_cast<std::int64_t>(content.size()) : Has(status.text(), "E330"));
    for (std::size_t i = places.size(); i-- > 0;) {
      ByteRange data;
      CHECK_EQ(reader->ReadAt(places[i], &data).text(), "");
      CHECK(std::string(data.data, data.size) == read[i]);
    }
  }
}
