// Allocator of ticket tensors.  The allocator closes a ticket when the last reference to its tensor is released.
//
// The batch can then no longer be trained.  It was trained, skipped, filtered, or dropped with its iterator or session.
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

  // Returns an int64 scalar with the ticket's number.  The tensor takes ownership of one hold of the ticket.
  tensorflow::Tensor MakeTensor(Ticket* ticket);
};

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_TICKET_ALLOCATOR_H_
