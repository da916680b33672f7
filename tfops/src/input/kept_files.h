// Files of training data that are kept in memory, because their records are read in random order.
#ifndef ASCPIPE_INPUT_KEPT_FILES_H_
#define ASCPIPE_INPUT_KEPT_FILES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/memory_room.h"
#include "core/private_memory.h"
#include "input/data_file.h"

namespace ascpipe {

// A shuffled batch needs a system call for nearly every record, and a call takes longer than copying the record.
// Therefore a file is read into memory once, by large reads, if there is enough memory. The class is thread-safe.
class KeptFiles {
 public:
  // Maximum size of all files that the process keeps.
  static constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

  explicit KeptFiles(std::size_t files, const MemoryPlaces& places = MemoryPlaces());
  ~KeptFiles();  // frees the memory
  KeptFiles(const KeptFiles&) = delete;
  KeptFiles& operator=(const KeptFiles&) = delete;

  // Returns the content of a plain file. The content is valid as long as the KeptFiles object exists. Returns null if
  // the file is not kept. All calls for a file must pass `data` with the same stamp. `reads` is the number of system
  // calls that the caller needs now if the file is not kept. Find adds up the `reads` of each file. Find keeps a file
  // in memory as soon as one read of the whole file would have been faster than these reads. Find never waits for
  // another thread.
  const char* Find(std::size_t file, const DataFile& data, std::int64_t reads);

 private:
  struct Kept {
    std::atomic<const char*> content{nullptr};
    std::mutex mutex;  // guards the members below
    std::int64_t reads = 0;
    bool is_refused = false;
    std::int64_t bytes = 0;  // of the file, if it is kept
    PrivateArray<char> memory;
  };

  void Keep(const DataFile& data, Kept* kept) const;

  const MemoryPlaces places_;
  std::vector<std::unique_ptr<Kept>> files_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_KEPT_FILES_H_
