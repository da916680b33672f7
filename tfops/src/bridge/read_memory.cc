#include "bridge/read_memory.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "tensorflow/core/framework/types.h"

namespace ascpipe {

namespace {

constexpr std::size_t kReadAlignment = 64;  // alignment that TensorFlow requires

struct ReadBlock {
  const char* begin;
  ReadPosition position;
};

// Blocks of memory that tensors use. The keys of the map are the end addresses of the blocks. The registry is never
// destroyed, because tensors may outlive static objects.
struct ReadBlocks {
  std::mutex mutex;
  std::map<const char*, ReadBlock> by_end;
};

ReadBlocks& AllBlocks() {
  static ReadBlocks* const blocks = new ReadBlocks;
  return *blocks;
}

}  // namespace

ReadPosition ReadMemory::PositionOf(const tensorflow::Tensor& tensor) {
  if (tensor.NumElements() == 0 || !tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) return ReadPosition();
  const char* const data = tensor.tensor_data().data();
  ReadBlocks& blocks = AllBlocks();
  std::lock_guard<std::mutex> lock(blocks.mutex);
  const auto found = blocks.by_end.upper_bound(data);
  return found != blocks.by_end.end() && found->second.begin <= data ? found->second.position : ReadPosition();
}

void* ReadMemory::AllocateRaw(size_t, size_t num_bytes) {
  void* block = nullptr;
  const std::size_t bytes = std::max<std::size_t>(num_bytes, 1);
  if (posix_memalign(&block, kReadAlignment, bytes) != 0) return nullptr;
  references_.fetch_add(1);
  const char* const begin = static_cast<const char*>(block);
  ReadBlocks& blocks = AllBlocks();
  std::lock_guard<std::mutex> lock(blocks.mutex);
  blocks.by_end[begin + bytes] = {begin, position_};
  return block;
}

void ReadMemory::DeallocateRaw(void* ptr) {
  {
    const char* const begin = static_cast<const char*>(ptr);
    ReadBlocks& blocks = AllBlocks();
    std::lock_guard<std::mutex> lock(blocks.mutex);
    blocks.by_end.erase(blocks.by_end.upper_bound(begin));
  }
  std::free(ptr);
  Unref();
}

void ReadMemory::Unref() {
  if (references_.fetch_sub(1) == 1) delete this;
}

}  // namespace ascpipe
