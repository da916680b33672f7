// Batches of rows for tests of row files: arrays, and a directory that must be empty at the end.
#ifndef ASCPIPE_TESTS_CPP_ROW_BATCHES_H_
#define ASCPIPE_TESTS_CPP_ROW_BATCHES_H_

#include <dirent.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "disk/row_engine.h"

namespace row_batches {

using namespace ascpipe;

constexpr std::int64_t kSmallStep = 1 << 20;

// New directory in the folder of temporary files, or in another file system.
class Directory {
 public:
  explicit Directory(const char* parent = nullptr) {
    const char* const temporary = std::getenv("TMPDIR");
    const std::string text = std::string(parent != nullptr      ? parent
                                         : temporary != nullptr ? temporary
                                                                : "/tmp") +
                             "/ascrows-XXXXXX";
    std::vector<char> path(text.c_str(), text.c_str() + text.size() + 1);
    CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path.data();
  }
  ~Directory() {
    CHECK_EQ(Entries(), 0);
    rmdir(path_.c_str());
  }
  const std::string& path() const { return path_; }
  int Entries() const {
    int count = 0;
    DIR* const opened = opendir(path_.c_str());
    while (const dirent* entry = readdir(opened)) {
      const std::string name = entry->d_name;
      count += name != "." && name != "..";
    }
    closedir(opened);
    return count;
  }

 private:
  std::string path_;
};

// Rows of a batch.  The bytes of a row are computed from a number, so that no oracle has to store the bytes.
class Rows {
 public:
  explicit Rows(std::int64_t row_bytes) : row_bytes_(row_bytes) {}

  void Add(std::int64_t slot, std::int64_t key, std::uint32_t generation, std::uint8_t alone = 0) {
    slots.push_back(slot);
    keys.push_back(key);
    generations.push_back(generation);
    this->alone.push_back(alone);
  }

  static std::uint8_t ByteOf(std::int64_t key, std::uint32_t generation, std::int64_t at) {
    return static_cast<std::uint8_t>(key * 31 + generation * 7 + at * 13 + (at >> 8) + 1);
  }

  // Returns the batch.  For a write, the rows are filled according to their keys and generations.  For a read, they are
  // filled with other bytes.
  DiskBatch Batch(bool writes) {
    const std::size_t n = slots.size();
    memory_.assign(n * static_cast<std::size_t>(row_bytes_), 0xEE);
    results.assign(n, 12345);
    rows_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      std::uint8_t* const row = memory_.data() + i * static_cast<std::size_t>(row_bytes_);
      for (std::int64_t at = 0; writes && at < row_bytes_; ++at) row[at] = ByteOf(keys[i], generations[i], at);
      rows_.push_back(row);
    }
    return {static_cast<std::int64_t>(n),
            slots.data(),
            keys.data(),
            generations.data(),
            rows_.data(),
            alone.data(),
            results.data(),
            nullptr,
            nullptr};
  }

  // Returns true if row i has the bytes of its key and generation.
  bool Has(std::size_t i) const {
    const std::uint8_t* const row = static_cast<const std::uint8_t*>(rows_[i]);
    for (std::int64_t at = 0; at < row_bytes_; ++at) {
      if (row[at] != ByteOf(keys[i], generations[i], at)) return false;
    }
    return true;
  }
  bool IsUntouched(std::size_t i) const {
    const std::uint8_t* const row = static_cast<const std::uint8_t*>(rows_[i]);
    for (std::int64_t at = 0; at < row_bytes_; ++at) {
      if (row[at] != 0xEE) return false;
    }
    return true;
  }

  std::vector<std::int64_t> slots, keys;
  std::vector<std::uint32_t> generations;
  std::vector<std::uint8_t> alone;
  std::vector<std::int32_t> results;

 private:
  const std::int64_t row_bytes_;
  std::vector<std::uint8_t> memory_;
  std::vector<void*> rows_;
};

constexpr std::chrono::milliseconds kLong(60000);

inline void Run(RowEngine* engine, int file, BatchKind kind, Rows* rows) {
  std::int64_t job = 0;
  const CoreStatus status = engine->Submit(file, kind, rows->Batch(kind == BatchKind::kWrite), &job);
  CHECK_EQ(status.text(), "");
  CHECK(engine->Wait(job, kLong));
}

inline void Write(RowEngine* engine, int file, Rows* rows) {
  Run(engine, file, BatchKind::kWrite, rows);
  for (const std::int32_t result : rows->results) CHECK_EQ(result, 0);
}

// Reads rows and compares them.
inline void Read(RowEngine* engine, int file, Rows* rows) {
  Run(engine, file, BatchKind::kRead, rows);
  for (std::size_t i = 0; i < rows->results.size(); ++i) {
    CHECK_EQ(rows->results[i], 0);
    CHECK(rows->Has(i));
  }
}

// Adds a file with at least `slots` slots, and returns its number.
inline int Open(RowEngine* engine, const std::string& directory, std::int64_t row_bytes, bool buffered,
                std::int64_t slots) {
  std::unique_ptr<RowFile> file;
  CHECK_EQ(RowFile::Create(directory, row_bytes, buffered, &file).text(), "");
  const std::int64_t per_block = file->format().slots_per_block();
  CHECK_EQ(file->Grow((slots + per_block - 1) / per_block, kSmallStep).text(), "");
  int number = -1;
  CHECK_EQ(engine->Add(std::move(file), &number).text(), "");
  return number;
}

inline DiskFigures Figures(const RowEngine& engine, int file) {
  DiskFigures figures = {};
  CHECK(engine.Figures(file, &figures).ok());
  return figures;
}

}  // namespace row_batches

#endif  // ASCPIPE_TESTS_CPP_ROW_BATCHES_H_
