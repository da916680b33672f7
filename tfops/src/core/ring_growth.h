// Room for the next frame of a ring, and more memory if the ring may grow.
//
// If ring_bytes is not set, rings have all the addresses they may ever need, but memory only at
// the beginning of their arenas.  The pump, the only thread that places frames, allocates more as batches need it.
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

// Memory of the arenas of all rings of a pipeline.
class RingBudget {
 public:
  explicit RingBudget(std::int64_t most) : left_(most) {}

  std::int64_t left() const { return left_.load(); }
  bool Take(std::int64_t bytes);                             // false: less is left
  void Note(std::int64_t bytes) { left_.fetch_sub(bytes); }  // a new ring has these bytes
  void GiveBack(std::int64_t bytes) { left_.fetch_add(bytes); }

  // Ends a growth under way and refuses further ones.
  void Stop() { stopped_.store(true); }
  bool stopped() const { return stopped_.load(); }

 private:
  std::atomic<std::int64_t> left_;
  std::atomic<bool> stopped_{false};
};

class RingGrowth {
 public:
  enum Answer { kPlaced, kWait, kNever };

  // fd: of the ring's segment of `segment_bytes`, stays the caller's; -1: the ring never grows.
  RingGrowth(const RingView& ring, const SessionView& session, int fd, std::int64_t segment_bytes,
             std::shared_ptr<RingBudget> budget, MemoryPlaces places = MemoryPlaces());

  // Finds a place for a frame of `length` bytes besides `frames` others.  kWait: there will be one once frames are
  // given back.  kNever: *why says what the frame needs, what there is and what to do.
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
  const std::int64_t reserved_;  // bytes that the arena may have, as far as its segment goes
  const std::shared_ptr<RingBudget> budget_;
  const MemoryPlaces places_;
  std::int64_t refused_ = 0;  // bytes of a frame for which there was no memory
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_RING_GROWTH_H_
