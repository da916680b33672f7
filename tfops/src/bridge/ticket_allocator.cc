#include "bridge/ticket_allocator.h"

#include <cstdlib>

#include "core/layout.h"

namespace ascpipe {

namespace {

struct Header {
  Ticket* ticket;  // null until the tensor has been made
};
constexpr std::size_t kBlockHeaderBytes = 64;  // keeps the data aligned as TensorFlow requires
static_assert(sizeof(Header) <= kBlockHeaderBytes, "the header stands before the data");

Header* HeaderOf(void* data) { return reinterpret_cast<Header*>(static_cast<char*>(data) - kBlockHeaderBytes); }

}  // namespace

TicketAllocator* TicketAllocator::Get() {
  static TicketAllocator* const allocator = new TicketAllocator;
  return allocator;
}

void* TicketAllocator::AllocateRaw(size_t, size_t num_bytes) {
  void* block = nullptr;
  const std::size_t bytes = kBlockHeaderBytes + layout::Align(static_cast<std::int64_t>(num_bytes));
  if (posix_memalign(&block, kBlockHeaderBytes, bytes) != 0) return nullptr;
  static_cast<Header*>(block)->ticket = nullptr;
  return static_cast<char*>(block) + kBlockHeaderBytes;
}

void TicketAllocator::DeallocateRaw(void* ptr) {
  Header* header = HeaderOf(ptr);
  if (header->ticket != nullptr) header->ticket->DropHold();
  std::free(header);
}

tensorflow::Tensor TicketAllocator::MakeTensor(Ticket* ticket) {
  tensorflow::Tensor tensor(this, tensorflow::DT_INT64, tensorflow::TensorShape({}));
  tensorflow::int64* value = &tensor.scalar<tensorflow::int64>()();
  *value = ticket->number();
  HeaderOf(value)->ticket = ticket;
  return tensor;
}

}  // namespace ascpipe
