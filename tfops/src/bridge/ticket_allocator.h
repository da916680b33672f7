// Allocator of ticket tensors. When a ticket tensor is freed, the allocator drops the ticket hold of the tensor. The
// ticket is closed if it has no other ticket hold.
//
// A batch can no longer be trained after its ticket was closed: it was trained, skipped or filtered, or it was dropped
// with the iterator or session.
#ifndef ASCPIPE_BRIDGE_TICKET_ALLOCATOR_H_
#define ASCPIPE_BRIDGE_TICKET_ALLOCATOR_H_

#include "core/ticket.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/tensor.h"

namespace ascpipe {

class TicketAllocator : public tensorflow::Allocator {
 public:
  static TicketAllocator* Get();  // exists until the process exits, because tensors may outlive all other objects

  std::string Name() override { return "ascpipe_ticket"; }
  void* AllocateRaw(size_t alignment, size_t num_bytes) override;
  void DeallocateRaw(void* ptr) override;

  // Returns an int64 scalar with the ticket's number. The tensor takes over one ticket hold (Ticket::TryHold).
  tensorflow::Tensor MakeTensor(Ticket* ticket);
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_TICKET_ALLOCATOR_H_
