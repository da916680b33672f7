// File of training data, which must not change while it is read.
#ifndef ASCPIPE_INPUT_DATA_FILE_H_
#define ASCPIPE_INPUT_DATA_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"

namespace ascpipe {

// Size and modification time of a file. An index is valid only for a file with the same stamp as the file from which
// the index was built.
struct FileStamp {
  std::int64_t bytes;
  std::int64_t modified_ns;
};

// The file is read by pread and never mapped into memory. If the file is truncated, Read returns E331; an access to
// mapped memory would raise SIGBUS. Const methods are thread-safe.
class DataFile {
 public:
  // Opens a regular file. Returns an error if `path` is not a regular file.
  static CoreStatus Open(const std::string& path, std::unique_ptr<DataFile>* file);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  const FileStamp& stamp() const { return stamp_; }  // the stamp at the time of Open

  // Reads `count` bytes at `offset`, or fewer at the end of the file. Reads of less than kUncheckedBytes do not check
  // whether the file has changed since Open, because the check takes as long as the read. After such reads, call
  // CheckUnchanged.
  static constexpr std::size_t kUncheckedBytes = 1 << 16;
  CoreStatus Read(std::int64_t offset, std::size_t count, char* buffer, std::size_t* got) const;

  // Returns an error if the size or the modification time has changed since Open.
  CoreStatus CheckUnchanged() const;

 private:
  DataFile(int fd, const std::string& path, const FileStamp& stamp) : fd_(fd), path_(path), stamp_(stamp) {}

  const int fd_;
  const std::string path_;
  const FileStamp stamp_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_DATA_FILE_H_
