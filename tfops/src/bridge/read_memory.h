// Memory of the tensors in batches that a dataset has read.
//
// The op that submits ids needs the position of the batch. Programs map batches before they submit the ids, and
// TensorFlow passes only tensors through maps. Therefore the position is stored with the memory of the tensors. A map
// that returns an input tensor, or a slice of an input tensor, returns the memory of the input.
#ifndef ASCPIPE_BRIDGE_READ_MEMORY_H_
#define ASCPIPE_BRIDGE_READ_MEMORY_H_

#include <atomic>
#include <memory>
#include <string>

#include "core/read_position.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"

namespace ascpipe {

// Allocator of the tensors of one batch. The allocator deletes itself when the owner and the last tensor have released
// it.
class ReadMemory : public tensorflow::Allocator {
 public:
  struct Disowner {
    void operator()(ReadMemory* memory) const { memory->Unref(); }
  };
  using Owned = std::unique_ptr<ReadMemory, Disowner>;
  static Owned Make(const ReadPosition& position) { return Owned(new ReadMemory(position)); }

  // Returns the position of the batch whose memory contains the tensor. The position has no source if the tensor is
  // empty, contains strings, or was computed by an op.
  static ReadPosition PositionOf(const tensorflow::Tensor& tensor);

  std::string Name() override { return "ascpipe_read"; }
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* ptr) override;

 private:
  explicit ReadMemory(const ReadPosition& position) : position_(position) {}
  ~ReadMemory() override = default;
  void Unref();

  const ReadPosition position_;
  std::atomic<int> references_{1};
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_MEMORY_H_
