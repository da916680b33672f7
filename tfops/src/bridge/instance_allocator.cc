#include "bridge/instance_allocator.h"

namespace ascpipe {

void* InstanceAllocator::AllocateRaw(size_t, size_t num_bytes) {
  const std::size_t bytes = static_cast<std::size_t>(table_->row_count() * table_->dim()) * sizeof(float);
  if (num_bytes != bytes) return nullptr;  // only the table's own tensor may use this memory
  references_.fetch_add(1);
  return table_->rows();
}

void InstanceAllocator::DeallocateRaw(void*) { Unref(); }

tensorflow::Tensor InstanceAllocator::MakeTensor() {
  return tensorflow::Tensor(this, tensorflow::DT_FLOAT, tensorflow::TensorShape({table_->row_count(), table_->dim()}));
}

void InstanceAllocator::Unref() {
  if (references_.fetch_sub(1) == 1) delete this;
}

}  // namespace ascpipe
