// The records of several files with indexes, as one sequence.
#ifndef ASCPIPE_INPUT_RECORD_SET_H_
#define ASCPIPE_INPUT_RECORD_SET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/core_status.h"
#include "input/kept_files.h"
#include "input/record_index.h"
#include "input/record_reader.h"
#include "input/record_windows.h"
#include "input/wire.h"

namespace ascpipe {

// Records are numbered consecutively over all files, in the order of the files. Const methods are thread-safe.
class RecordSet {
 public:
  // A file, the path of its index, and its format.
  struct Source {
    std::string path, index_path;
    RecordFormat format = TfRecordFormat();
  };

  // Opens the indexes. Like RecordIndex::Open, returns an error if an index does not belong to its file.
  static CoreStatus Open(std::vector<Source> sources, std::unique_ptr<RecordSet>* set);

  std::int64_t records() const { return firsts_.back(); }

  // Returns the number of records of a window, or 0 if all files are plain. If a file is compressed, windows should be
  // read in order. Records within a window may be read in any order. A window has about kWindowBytes.
  static constexpr std::int64_t kWindowBytes = std::int64_t{1} << 25, kMostInWindow = 1 << 16;
  std::int64_t window() const { return window_; }

  // Describes the position of a record for messages: the number in its file, the path, and the byte offset.
  std::string Describe(std::int64_t record) const;

 private:
  friend class RecordSetReader;
  friend class RecordWindows;

  RecordSet() : firsts_{0} {}

  CoreStatus Add(const Source& source);
  CoreStatus FindWindow();

  // FileOf returns the number of the file that contains a record. FirstOf returns the number of a file's first record.
  std::size_t FileOf(std::int64_t record) const;
  std::int64_t FirstOf(std::size_t file) const { return firsts_[file]; }
  // Opens a file again. Returns an error if the file has changed since Open.
  CoreStatus OpenReader(std::size_t file, std::unique_ptr<RecordReader>* reader) const;

  std::vector<Source> sources_;
  std::vector<FileStamp> stamps_;
  std::vector<Compression> compressions_;
  std::vector<std::unique_ptr<RecordIndex>> indexes_;
  std::vector<std::int64_t> firsts_;  // number of the first record of each file, and the number of all records
  std::int64_t window_ = 0;
  std::unique_ptr<KeptFiles> kept_;
};

// Reads records of a set. Each reader opens the files separately, and only one thread at a time may use a reader.
class RecordSetReader {
 public:
  explicit RecordSetReader(const RecordSet& set);

  // Reads records and checks them. `records[i]` becomes the record with number `numbers[i]`. The record is valid until
  // the next call of Read or the destruction of the set. Records are read in the order of the files, independent of the
  // order of `numbers`.
  CoreStatus Read(const std::vector<std::int64_t>& numbers, std::vector<ByteRange>* records);

 private:
  // A record of the batch. Wanted records are sorted in the order of the files.
  struct Wanted {
    std::int64_t number;
    std::size_t place;  // index in `numbers`
  };

  // Reads records of one plain file.
  CoreStatus ReadFile(std::size_t file, const Wanted* wanted, std::size_t count, std::vector<ByteRange>* records);
  // Reads the records at places_ from the content of a file in memory. The records are not copied.
  CoreStatus ReadKept(const char* content, const Wanted* wanted, RecordReader* reader, std::vector<ByteRange>* records);
  CoreStatus FindPlaces(std::size_t file, const Wanted* wanted, std::size_t count);
  CoreStatus ReadInWindows(std::vector<ByteRange>* records);
  void Append(const ByteRange& data, std::size_t place, std::vector<ByteRange>* records);

  const RecordSet& set_;
  std::vector<std::unique_ptr<RecordReader>> files_;  // null: not opened yet
  RecordWindows windows_;
  std::vector<Wanted> wanted_;
  std::vector<RecordPlace> places_;   // of wanted records of one file
  std::vector<char> bytes_;           // of the records of the batch, except records of kept files
  std::vector<std::size_t> offsets_;  // of each record in bytes_, or kIsKept
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_SET_H_
