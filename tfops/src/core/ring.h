// The trainer's view of a ring segment: frames, state words, and the arena of the frames.
#ifndef ASCPIPE_CORE_RING_H_
#define ASCPIPE_CORE_RING_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/core_status.h"
#include "core/layout.h"
#include "core/segment.h"

namespace ascpipe {

// Allocator of contiguous frames in a ring's arena, in FIFO order.
//
// Positions always increase. A frame that does not fit before the end of the arena is placed at the beginning and
// starts the next lap. The remaining bytes at the end are skipped. The arena can grow at its end without moving frames
// while all frames are in one lap.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : bytes_(bytes & ~(layout::kCacheLine - 1)) {}

  std::int64_t bytes() const { return bytes_; }
  std::int64_t head() const { return head_; }
  std::int64_t tail() const { return tail_; }
  bool empty() const { return starts_.empty(); }

  // Finds free space for `length` bytes after the newest frame. Returns false if there is not enough free space now. A
  // frame with length > bytes() never fits.
  bool Find(std::int64_t length, std::int64_t* position) const;
  // Allocates the space that Find returned.
  void Take(std::int64_t position, std::int64_t length);
  // Frees the oldest frame.
  void Free();
  // Returns the number of bytes from the beginning of the arena to a position that Find returned.
  std::int64_t OffsetOf(std::int64_t position) const;

  // Returns the arena size at which `length` bytes fit immediately, or 0 if frames must be freed before the arena can
  // grow.
  std::int64_t BytesFor(std::int64_t length) const;
  // `bytes` must be at least the result of BytesFor.
  void Grow(std::int64_t bytes) { bytes_ = bytes; }

  // Sets the position of the next frame of an empty arena, for tests.
  void StartAt(std::int64_t position);

 private:
  // Returns true if the oldest frame is in the previous lap, so that the free space ends at the oldest frame.
  bool IsBetweenLaps() const { return !starts_.empty() && head_ < lap_; }

  std::int64_t bytes_;
  std::int64_t head_ = 0;
  std::int64_t tail_ = 0;
  std::int64_t lap_ = 0;     // start of the lap of the newest frame
  std::int64_t before_ = 0;  // start of the previous lap
  std::deque<std::int64_t> starts_;
};

// Typed access to a ring segment.
//
// A faulty process of the session can overwrite any part of a ring. Therefore all copies of a RingView share private
// copies of the header and of the trainer's positions. Open copies the header. A RingView never reads the header or the
// positions from the ring again.
class RingView {
 public:
  RingView() = default;
  // Copies the header. Returns an error unless the header fits the segment and agrees with the arguments.
  static CoreStatus Open(const Segment& segment, int stream, int channel, const std::vector<int>& tables,
                         RingView* view);

  layout::Ring* header() const { return ring_; }
  const layout::Ring& opened() const { return own_->opened; }  // the header at Open
  int tables() const { return own_->opened.table_count; }
  int table_number(int index) const { return own_->numbers[static_cast<std::size_t>(index)]; }
  int worker(int index) const { return own_->workers[static_cast<std::size_t>(index)]; }
  layout::RingTable* table(int index) const { return tables_ + index; }
  layout::Frame* frame(std::int64_t number) const { return frames_ + number % layout::kMaxFrames; }
  std::uint32_t* word(int index, std::int64_t number) const {
    return &tables_[index].words[number % layout::kMaxFrames];
  }
  std::uint8_t* base() const { return base_; }

  // Numbers of the oldest frame in use (head) and of the next frame (tail).
  std::int64_t head() const { return own_->head.load(); }
  std::int64_t tail() const { return own_->tail.load(); }
  // Set the private positions. Call SetHead and SetTail before the shared positions change, so that steps see every
  // frame that workers see.
  void SetHead(std::int64_t number) const { own_->head.store(number); }
  void SetTail(std::int64_t number) const { own_->tail.store(number); }

  // Returns true if the frame may be freed. A frame may be freed if it is closed and every table has retired it. In a
  // local ring, every table must have deduplicated the frame instead.
  bool IsFree(std::int64_t number) const;

 private:
  struct Own {
    layout::Ring opened;
    std::vector<int> numbers, workers;  // per table
    std::atomic<std::int64_t> head{0}, tail{0};
  };

  std::shared_ptr<Own> own_;
  std::uint8_t* base_ = nullptr;
  layout::Ring* ring_ = nullptr;
  layout::Frame* frames_ = nullptr;
  layout::RingTable* tables_ = nullptr;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_RING_H_
