// Allocator of table variables. All tensors of an allocator share the memory of one table's rows.
#ifndef ASCPIPE_BRIDGE_INSTANCE_ALLOCATOR_H_
#define ASCPIPE_BRIDGE_INSTANCE_ALLOCATOR_H_

#include <atomic>
#include <memory>

#include "core/table_instance.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"

namespace ascpipe {

// An allocator deletes itself and releases the rows when the owner and the last tensor have released the allocator.
class InstanceAllocator : public tensorflow::Allocator {
 public:
  static InstanceAllocator* Make(std::shared_ptr<DeviceTable> table) { return new InstanceAllocator(std::move(table)); }

  std::string Name() override { return "ascpipe_table"; }
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* ptr) override;

  // Returns a tensor float[rows, dim] that shares the memory of the table's rows.
  tensorflow::Tensor MakeTensor();
  // Releases the owner's reference. The owner must not use the allocator after Disown.
  void Disown() { Unref(); }

 private:
  explicit InstanceAllocator(std::shared_ptr<DeviceTable> table) : table_(std::move(table)) {}
  ~InstanceAllocator() override = default;
  void Unref();

  const std::shared_ptr<DeviceTable> table_;
  std::atomic<int> references_{1};
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_INSTANCE_ALLOCATOR_H_
