// Allocator of table variables: every tensor shares the memory of one table's rows.
#ifndef ASCPIPE_BRIDGE_INSTANCE_ALLOCATOR_H_
#define ASCPIPE_BRIDGE_INSTANCE_ALLOCATOR_H_

#include <atomic>
#include <memory>

#include "core/table_instance.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"

namespace ascpipe {

// Deletes itself and releases the rows when its owner and the last tensor have released it.
class InstanceAllocator : public tensorflow::Allocator {
 public:
  static InstanceAllocator* Make(std::shared_ptr<DeviceTable> table) { return new InstanceAllocator(std::move(table)); }

  std::string Name() override { return "ascpipe_table"; }
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* ptr) override;

  // Returns float[rows, dim], which shares the memory of the table's rows.
  tensorflow::Tensor MakeTensor();
  // The owner's last call.
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
