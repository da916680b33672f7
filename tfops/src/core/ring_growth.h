// Placement of frames in a ring, and growth of the ring.
//
// If ring_bytes is not set, a ring reserves address space for its maximum size, but allocates memory only for the
// beginning of the arena. The thread that places a frame allocates more memory when a batch needs more space. Only one
// thread at a time may place frames in a ring.
#ifndef ASCPIPE_CORE_RING_GROWTH_H_
#define ASCPIPE_CORE_RING_GROWTH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"
#include "core/kept_descriptor.h"
#include "core/memory_room.h"
#include "core/ring.h"
#include "core/segment.h"

namespace ascpipe {

// Memory budget that the arenas of a pipeline's rings share.
class RingBudget {
 public:
  explicit RingBudget(std::int64_t most) : left_(most) {}

  std::int64_t left() const { return left_.load(); }
  bool Take(std::int64_t bytes);                             // false: not enough bytes are left
  void Note(std::int64_t bytes) { left_.fetch_sub(bytes); }  // counts the bytes of a new ring
  void GiveBack(std::int64_t bytes) { left_.fetch_add(bytes); }

  // Stops the growth that is in progress, and refuses further growth.
  void Stop() { stopped_.store(true); }
  bool stopped() const { return stopped_.load(); }

 private:
  std::atomic<std::int64_t> left_;
  std::atomic<bool> stopped_{false};
};

class RingGrowth {
 public:
  enum Answer { kPlaced, kWait, kNever };

  // `fd` is the descriptor of the ring's segment, and `segment_bytes` is the size of the segment. The caller still owns
  // `fd`. If `fd` is -1, the ring never grows.
  RingGrowth(const RingView& ring, const SessionView& session, int fd, std::int64_t segment_bytes,
             std::shared_ptr<RingBudget> budget, MemoryPlaces places = MemoryPlaces());

  // Finds space for a frame of `length` bytes in an arena with `frames` other frames. Returns kWait if frames must be
  // freed first. Returns kNever if the frame cannot fit, and writes an explanation to *why.
  Answer Place(Arena* arena, std::int64_t length, std::int64_t frames, std::int64_t* position, std::string* why);

  void Stop() { fd_.Close(); }

 private:
  std::int64_t Most(const Arena& arena) const;
  CoreStatus Grow(Arena* arena, std::int64_t bytes);
  CoreStatus Allocate(std::int64_t from, std::int64_t to) const;
  std::string Advice(const Arena& arena, std::int64_t length, const std::string& no_memory) const;

  const RingView ring_;
  const SessionView session_;
  KeptDescriptor fd_;
  const std::int64_t reserved_;  // maximum size of the arena in its segment
  const std::shared_ptr<RingBudget> budget_;
  const MemoryPlaces places_;
  std::int64_t refused_ = 0;  // length of the largest frame for which memory was refused
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_RING_GROWTH_H_
