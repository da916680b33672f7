#include "input/kept_files.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

namespace ascpipe {
namespace {

constexpr std::int64_t kBytesPerRead = 8192;  // of a large read that takes as long as the read of a record
constexpr std::int64_t kLargeBytes = 1 << 20;
constexpr std::int64_t kShareOfMemory = 4;  // a file takes at most this part of the available memory

std::atomic<std::int64_t> kept_bytes{0};  // of the process

// Adds `bytes` to the kept bytes of the process. Returns false, and adds nothing, if the sum would exceed kMostBytes.
bool Reserve(std::int64_t bytes) {
  std::int64_t before = kept_bytes.load();
  do {
    if (bytes > KeptFiles::kMostBytes - before) return false;
  } while (!kept_bytes.compare_exchange_weak(before, before + bytes));
  return true;
}

bool HasMemory(std::int64_t bytes, const MemoryPlaces& places) {
  const std::vector<MemoryRoom> rooms = MemoryRooms(places);
  return std::all_of(rooms.begin(), rooms.end(),
                     [bytes](const MemoryRoom& room) { return room.free_bytes / kShareOfMemory >= bytes; });
}

bool ReadAll(const DataFile& data, char* content) {
  const std::int64_t bytes = data.stamp().bytes;
  for (std::int64_t offset = 0; offset < bytes; offset += kLargeBytes) {
    const auto count = static_cast<std::size_t>(std::min(kLargeBytes, bytes - offset));
    std::size_t got;
    if (!data.Read(offset, count, content + offset, &got).ok() || got != count) return false;
  }
  return data.CheckUnchanged().ok();
}

}  // namespace

constexpr std::int64_t KeptFiles::kMostBytes;

KeptFiles::KeptFiles(std::size_t files, const MemoryPlaces& places) : places_(places) {
  for (std::size_t i = 0; i < files; ++i) files_.emplace_back(new Kept);
}

KeptFiles::~KeptFiles() {
  for (const std::unique_ptr<Kept>& kept : files_) kept_bytes.fetch_sub(kept->bytes);
}

const char* KeptFiles::Find(std::size_t file, const DataFile& data, std::int64_t reads) {
  Kept* const kept = files_[file].get();
  const char* const content = kept->content.load(std::memory_order_acquire);
  if (content != nullptr || data.stamp().bytes > kMostBytes) return content;
  const std::unique_lock<std::mutex> lock(kept->mutex, std::try_to_lock);
  if (!lock.owns_lock() || kept->is_refused) return nullptr;
  kept->reads += reads;
  if (kept->memory.get() == nullptr && kept->reads > data.stamp().bytes / kBytesPerRead) Keep(data, kept);
  return kept->content.load(std::memory_order_acquire);
}

// Reads a file into memory. If Keep fails, it is not called for the file again, and the caller reads each record from
// the file. The caller then reports errors of reads.
void KeptFiles::Keep(const DataFile& data, Kept* kept) const {
  const std::int64_t bytes = data.stamp().bytes;
  kept->is_refused = true;
  if (!Reserve(bytes)) return;
  PrivateArray<char> memory;
  if (HasMemory(bytes, places_)) memory = PrivateArray<char>(bytes);
  if (memory.get() != nullptr) madvise(memory.get(), static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  if (memory.get() == nullptr || !ReadAll(data, memory.get())) {
    kept_bytes.fetch_sub(bytes);
    return;
  }
  kept->is_refused = false;
  kept->bytes = bytes;
  kept->memory = std::move(memory);
  kept->content.store(kept->memory.get(), std::memory_order_release);
}

}  // namespace ascpipe
