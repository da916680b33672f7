// TFRecord files for tests, written byte by byte.
#ifndef ASCPIPE_TESTS_CPP_RECORD_FILES_H_
#define ASCPIPE_TESTS_CPP_RECORD_FILES_H_

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "core/crc32.h"
#include "core/crc32c.h"
#include "input/record_file.h"

namespace record_files {

// New directory in the folder of temporary files. The destructor removes its files.
class Folder {
 public:
  Folder() {
    const char* const temporary = std::getenv("TMPDIR");
    const std::string text = std::string(temporary != nullptr ? temporary : "/tmp") + "/ascrecords-XXXXXX";
    std::vector<char> path(text.c_str(), text.c_str() + text.size() + 1);
    CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path.data();
  }
  ~Folder() {
    for (const std::string& name : Names()) unlink((path_ + "/" + name).c_str());
    CHECK_EQ(rmdir(path_.c_str()), 0);
  }
  const std::string& path() const { return path_; }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    DIR* const opened = opendir(path_.c_str());
    while (const dirent* entry = readdir(opened)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    closedir(opened);
    return names;
  }

 private:
  std::string path_;
};

inline std::string Bytes(std::uint64_t number, std::size_t count) {
  return std::string(reinterpret_cast<const char*>(&number), count);
}

inline std::string Checksum(const std::string& text) {
  const std::uint32_t crc = ascpipe::Crc32cByTables(text.data(), text.size());
  return Bytes(((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

inline std::string Header(std::uint64_t length) { return Bytes(length, 8) + Checksum(Bytes(length, 8)); }

inline std::string Record(const std::string& data) { return Header(data.size()) + data + Checksum(data); }

inline std::string Content(const std::vector<std::string>& records) {
  std::string content;
  for (const std::string& record : records) content += Record(record);
  return content;
}

// Records of random lengths up to `most`, and random bytes.
inline std::vector<std::string> RandomRecords(int count, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) {
    std::string record(random() % (most + 1), ' ');
    for (char& byte : record) byte = static_cast<char>(random());
    records.push_back(record);
  }
  return records;
}

inline void Write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// A GZIP file without compression: stored blocks of at most 65535 bytes.
inline std::string Gzip(const std::string& content) {
  std::string file("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  std::size_t at = 0;
  do {
    const std::size_t size = std::min<std::size_t>(content.size() - at, 65535);
    file += std::string(1, at + size == content.size() ? '\1' : '\0') + Bytes(size, 2) + Bytes(~size, 2);
    file += content.substr(at, size);
    at += size;
  } while (at < content.size());
  return file + Bytes(ascpipe::Crc32(content.data(), content.size()), 4) + Bytes(content.size(), 4);
}

inline std::unique_ptr<ascpipe::RecordFile> Open(const std::string& path) {
  std::unique_ptr<ascpipe::RecordFile> file;
  CHECK_EQ(ascpipe::RecordFile::Open(path, ascpipe::Compression::kDetect, &file).text(), "");
  return file;
}

// Reads all records of a file. Returns the error that ended the file, or an empty text.
inline std::string ReadAll(ascpipe::RecordFile* file, std::vector<std::string>* records) {
  for (bool is_end = false;;) {
    ascpipe::RecordPlace place;
    ascpipe::ByteRange data;
    const ascpipe::CoreStatus status = file->Next(&place, &data, &is_end);
    if (!status.ok() || is_end) return status.text();
    records->push_back(std::string(data.data, data.size));
  }
}

}  // namespace record_files

#endif  // ASCPIPE_TESTS_CPP_RECORD_FILES_H_
