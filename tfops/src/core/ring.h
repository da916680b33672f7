// A ring segment as the trainer sees it: frames, state words, and the arena in which frames lie.
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

// Allocates frames in a ring's arena: one after the other, each contiguous, oldest first.
//
// Positions always grow, lap by lap.  A frame that does not fit before the end of the arena starts the next lap at the
// beginning of the arena; the rest at the end is skipped.  While all frames are of one lap, no frame lies behind the
// newest, so the end of the arena may move: the arena grows and its frames stay where they are.
class Arena {
 public:
  explicit Arena(std::int64_t bytes) : bytes_(bytes & ~(layout::kCacheLine - 1)) {}

  std::int64_t bytes() const { return bytes_; }
  std::int64_t head() const { return head_; }
  std::int64_t tail() const { return tail_; }
  bool empty() const { return starts_.empty(); }

  // Finds a place for `length` bytes behind the newest frame.  False: no room now (never, if length > bytes()).
  bool Find(std::int64_t length, std::int64_t* position) const;
  // Takes the place that Find returned.
  void Take(std::int64_t position, std::int64_t length);
  // Gives the oldest frame back.
  void Free();
  // Bytes from the beginning of the arena to a position of Find.
  std::int64_t OffsetOf(std::int64_t position) const;

  // Arena size with which there is a place for `length` bytes at once; 0: at any size, the frames at its end have to be
  // given back first.
  std::int64_t BytesFor(std::int64_t length) const;
  // Call only with at least as many bytes as BytesFor has returned.
  void Grow(std::int64_t bytes) { bytes_ = bytes; }

  // For tests: an empty arena whose next frame starts at `position`.
  void StartAt(std::int64_t position);

 private:
  // The oldest frame is of the lap before that of the newest: the arena is free up to it, and no further.
  bool IsBetweenLaps() const { return !starts_.empty() && head_ < lap_; }

  std::int64_t bytes_;
  std::int64_t head_ = 0;
  std::int64_t tail_ = 0;
  std::int64_t lap_ = 0;     // where the lap of the newest frame begins
  std::int64_t before_ = 0;  // where the lap before it begins
  std::deque<std::int64_t> starts_;
};

// Typed access to a ring segment.
//
// Any process of the session can write everywhere in a ring, and one that has gone mad does.  So copies of a view share
// what the supervisor has written there, as it was when the ring was opened, and the positions, which the trainer
// writes: neither is read from there again.
class RingView {
 public:
  RingView() = default;
  // Checks the header against the bytes of the segment and what the trainer declared.
  static CoreStatus Open(const Segment& segment, int stream, int channel, const std::vector<int>& tables,
                         RingView* view);

  layout::Ring* header() const { return ring_; }
  const layout::Ring& opened() const { return own_->opened; }  // the header as it was then
  int tables() const { return own_->opened.table_count; }
  int table_number(int index) const { return own_->numbers[static_cast<std::size_t>(index)]; }
  int worker(int index) const { return own_->workers[static_cast<std::size_t>(index)]; }
  layout::RingTable* table(int index) const { return tables_ + index; }
  layout::Frame* frame(std::int64_t number) const { return frames_ + number % layout::kMaxFrames; }
  std::uint32_t* word(int index, std::int64_t number) const {
    return &tables_[index].words[number % layout::kMaxFrames];
  }
  std::uint8_t* base() const { return base_; }

  // Number of the oldest frame that was not given back, and of the next one.
  std::int64_t head() const { return own_->head.load(); }
  std::int64_t tail() const { return own_->tail.load(); }
  // Before workers see the same, so that no frame is at work that a step does not see.
  void SetHead(std::int64_t number) const { own_->head.store(number); }
  void SetTail(std::int64_t number) const { own_->tail.store(number); }

  // Whether the frame may be given back: closed, and retired by every table; in a local ring, deduplicated for each.
  bool IsFree(std::int64_t number) const;

 private:
  struct Own {
    layout::Ring opened;
    std::vector<int> numbers, workers;  // of the tables
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
