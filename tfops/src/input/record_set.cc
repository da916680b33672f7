#include "input/record_set.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/error_codes.gen.h"

namespace ascpipe {
namespace {

// Reading a gap of kGapBytes takes about as long as an additional system call.
constexpr std::int64_t kGapBytes = 4096;

// Returns the end offset of the bytes that one read fetches, beginning with places[first]. `places` has ascending
// offsets.
std::int64_t EndOfSpan(const std::vector<RecordPlace>& places, std::size_t first) {
  std::int64_t end = places[first].offset + places[first].bytes;
  for (std::size_t next = first + 1; next < places.size() && places[next].offset <= end + kGapBytes; ++next) {
    end = places[next].offset + places[next].bytes;
  }
  return end;
}

// Returns the number of reads that fetch the records, or 0 if a read fetches at least two records on average. `places`
// has ascending offsets.
std::int64_t SparseReads(const std::vector<RecordPlace>& places) {
  std::int64_t reads = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool is_near = i > 0 && places[i].offset <= places[i - 1].offset + places[i - 1].bytes + kGapBytes;
    if (!is_near) ++reads;
  }
  return 2 * reads > static_cast<std::int64_t>(places.size()) ? reads : 0;
}

constexpr std::size_t kIsKept = static_cast<std::size_t>(-1);
constexpr std::size_t kRecordsAhead = 4;  // prefetch distance in records

}  // namespace

constexpr std::int64_t RecordSet::kWindowBytes;
constexpr std::int64_t RecordSet::kMostInWindow;

CoreStatus RecordSet::Open(std::vector<Source> sources, std::unique_ptr<RecordSet>* set) {
  std::unique_ptr<RecordSet> opened(new RecordSet);
  CoreStatus status;
  for (const Source& source : sources) {
    status = opened->Add(source);
    if (!status.ok()) return status;
  }
  opened->sources_ = std::move(sources);
  opened->kept_.reset(new KeptFiles(opened->sources_.size()));
  status = opened->FindWindow();
  if (status.ok()) *set = std::move(opened);
  return status;
}

CoreStatus RecordSet::Add(const Source& source) {
  std::unique_ptr<RecordReader> reader;
  std::unique_ptr<RecordIndex> index;
  CoreStatus status = RecordReader::Open(source.path, source.format, Compression::kDetect, &reader);
  if (status.ok()) status = RecordIndex::Open(source.index_path, reader->file().stamp(), source.format, &index);
  if (!status.ok()) return status;
  firsts_.push_back(records() + index->records());
  indexes_.push_back(std::move(index));
  stamps_.push_back(reader->file().stamp());
  compressions_.push_back(reader->compression());
  return status;
}

CoreStatus RecordSet::FindWindow() {
  const auto is_compressed = [](Compression compression) { return compression != Compression::kNone; };
  if (!std::any_of(compressions_.begin(), compressions_.end(), is_compressed)) return CoreStatus();
  std::int64_t bytes = 0;
  for (const std::unique_ptr<RecordIndex>& index : indexes_) {
    RecordPlace last = {0, 0, 0};
    const CoreStatus status = index->records() == 0 ? CoreStatus() : index->Find(index->records() - 1, 1, &last);
    if (!status.ok()) return status;
    bytes += last.offset + last.bytes;
  }
  const std::int64_t each = std::max<std::int64_t>(1, bytes / std::max<std::int64_t>(1, records()));
  window_ = std::min(std::max<std::int64_t>(1, kWindowBytes / each), kMostInWindow);
  return CoreStatus();
}

CoreStatus RecordSet::OpenReader(std::size_t file, std::unique_ptr<RecordReader>* reader) const {
  const Source& source = sources_[file];
  std::unique_ptr<RecordReader> opened;
  const CoreStatus status = RecordReader::Open(source.path, source.format, compressions_[file], &opened);
  if (!status.ok()) return status;
  const FileStamp &before = stamps_[file], &now = opened->file().stamp();
  if (before.bytes != now.bytes || before.modified_ns != now.modified_ns) {
    return Error(kE331, opened->file().path(), " has changed while the dataset reads it: it had ", before.bytes,
                 " bytes, and now has ", now.bytes, ". No batch has records of the new file. Start the program again");
  }
  *reader = std::move(opened);
  return CoreStatus();
}

std::size_t RecordSet::FileOf(std::int64_t record) const {
  return static_cast<std::size_t>(std::upper_bound(firsts_.begin(), firsts_.end(), record) - firsts_.begin()) - 1;
}

std::string RecordSet::Describe(std::int64_t record) const {
  const std::size_t file = FileOf(record);
  RecordPlace place = {record - firsts_[file], -1, 0};
  indexes_[file]->Find(place.number, 1, &place);  // a damaged index leaves the offset unknown
  std::ostringstream text;
  text << "record " << place.number << " of " << sources_[file].path;
  if (place.offset >= 0) text << " (" << place.bytes << " bytes at byte " << place.offset << ")";
  return text.str();
}

RecordSetReader::RecordSetReader(const RecordSet& set) : set_(set), files_(set.sources_.size()), windows_(set) {}

CoreStatus RecordSetReader::Read(const std::vector<std::int64_t>& numbers, std::vector<ByteRange>* records) {
  wanted_.clear();
  for (std::size_t i = 0; i < numbers.size(); ++i) wanted_.push_back({numbers[i], i});
  const auto is_before = [](const Wanted& a, const Wanted& b) { return a.number < b.number; };
  if (!std::is_sorted(wanted_.begin(), wanted_.end(), is_before)) {
    std::sort(wanted_.begin(), wanted_.end(), is_before);
  }
  bytes_.clear();
  offsets_.assign(numbers.size() + 1, 0);
  records->assign(numbers.size(), {nullptr, 0});
  if (set_.window() > 0) {
    const CoreStatus status = ReadInWindows(records);
    if (!status.ok()) return status;
  }
  for (std::size_t begin = 0; set_.window() == 0 && begin < wanted_.size();) {
    const std::size_t file = set_.FileOf(wanted_[begin].number);
    std::size_t end = begin + 1;
    while (end < wanted_.size() && wanted_[end].number < set_.firsts_[file + 1]) ++end;
    const CoreStatus status = ReadFile(file, wanted_.data() + begin, end - begin, records);
    if (files_[file] != nullptr) {  // a changed file is the cause of other errors
      const CoreStatus unchanged = files_[file]->file().CheckUnchanged();
      if (!unchanged.ok()) return unchanged;
    }
    if (!status.ok()) return status;
    begin = end;
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (offsets_[i] != kIsKept) (*records)[i].data = bytes_.data() + offsets_[i];
  }
  return CoreStatus();
}

CoreStatus RecordSetReader::ReadFile(std::size_t file, const Wanted* wanted, std::size_t count,
                                     std::vector<ByteRange>* records) {
  CoreStatus status = FindPlaces(file, wanted, count);
  if (status.ok() && files_[file] == nullptr) status = set_.OpenReader(file, &files_[file]);
  if (!status.ok()) return status;
  RecordReader* const reader = files_[file].get();
  const char* const kept = set_.kept_->Find(file, reader->file(), SparseReads(places_));
  if (kept != nullptr) return ReadKept(kept, wanted, reader, records);
  std::int64_t span_end = 0;
  for (std::size_t i = 0; i < count && status.ok(); ++i) {
    if (places_[i].offset >= span_end) {
      span_end = EndOfSpan(places_, i);
      reader->Expect(span_end);
    }
    ByteRange data;
    status = reader->ReadAt(places_[i], &data);
    if (status.ok()) Append(data, wanted[i].place, records);
  }
  return status;
}

CoreStatus RecordSetReader::ReadKept(const char* content, const Wanted* wanted, RecordReader* reader,
                                     std::vector<ByteRange>* records) {
  reader->Keep(content);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (i + kRecordsAhead < places_.size()) reader->Prefetch(places_[i + kRecordsAhead]);
    const CoreStatus status = reader->ReadAt(places_[i], &(*records)[wanted[i].place]);
    if (!status.ok()) return status;
    offsets_[wanted[i].place] = kIsKept;
  }
  return CoreStatus();
}

CoreStatus RecordSetReader::FindPlaces(std::size_t file, const Wanted* wanted, std::size_t count) {
  places_.resize(count);
  CoreStatus status;
  for (std::size_t begin = 0, end; begin < count && status.ok(); begin = end) {
    // One search in the index finds all records with consecutive numbers.
    end = begin + 1;
    while (end < count && wanted[end].number == wanted[end - 1].number + 1) ++end;
    status = set_.indexes_[file]->Find(wanted[begin].number - set_.firsts_[file],
                                       static_cast<std::int64_t>(end - begin), &places_[begin]);
  }
  return status;
}

CoreStatus RecordSetReader::ReadInWindows(std::vector<ByteRange>* records) {
  for (const Wanted& wanted : wanted_) {
    ByteRange data{nullptr, 0};
    const CoreStatus status = windows_.Find(wanted.number, &data);
    if (!status.ok()) return status;
    Append(data, wanted.place, records);
  }
  return CoreStatus();
}

void RecordSetReader::Append(const ByteRange& data, std::size_t place, std::vector<ByteRange>* records) {
  offsets_[place] = bytes_.size();
  (*records)[place].size = data.size;
  bytes_.insert(bytes_.end(), data.data, data.data + data.size);
}

}  // namespace ascpipe
