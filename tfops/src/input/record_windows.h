// Reads the records of a set in which some files are compressed. Compressed files can only be read in order.
#ifndef ASCPIPE_INPUT_RECORD_WINDOWS_H_
#define ASCPIPE_INPUT_RECORD_WINDOWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "core/core_status.h"
#include "input/record_reader.h"
#include "input/wire.h"

namespace ascpipe {

class RecordSet;

// Window w of a set contains the records [w * size, (w + 1) * size). The records of two windows are kept in memory. If
// a later window is requested, reading continues at the current position. If an earlier window is requested, the files
// are read again from the beginning. Only one thread at a time may use a RecordWindows object.
class RecordWindows {
 public:
  explicit RecordWindows(const RecordSet& set) : set_(set) {}

  // Finds a record. `data` is valid until records of two other windows are found. Returns an error if the record is
  // damaged.
  CoreStatus Find(std::int64_t number, ByteRange* data);

 private:
  struct Window {
    std::int64_t number = -1;
    std::vector<char> bytes;
    std::vector<std::size_t> ends;                // end of each record in `bytes`
    std::map<std::int64_t, CoreStatus> problems;  // errors of damaged records, by record number in the set
  };

  CoreStatus Load(std::int64_t number, Window* window);
  // Reads the next record of the set, or skips it if `data` is null. If a record can be skipped but not read, its error
  // is stored in `window`.
  CoreStatus Take(ByteRange* data, Window* window);

  const RecordSet& set_;
  std::unique_ptr<RecordReader> reader_;  // null: not opened
  std::size_t file_ = 0;                  // number of the file that reader_ reads
  std::int64_t next_ = 0;                 // number of the next record
  Window windows_[2];
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_WINDOWS_H_
