#include "core/ring.h"

#include "core/atomics.h"

namespace ascpipe {

bool Arena::Find(std::int64_t length, std::int64_t* position) const {
  if (length > bytes_) return false;
  const bool starts_lap = tail_ - lap_ + length > bytes_;
  *position = starts_lap ? lap_ + bytes_ : tail_;
  if (starts_.empty()) return true;  // the whole arena is free
  if (starts_lap) return !IsBetweenLaps() && length <= head_ - lap_;
  return !IsBetweenLaps() || tail_ - lap_ + length <= head_ - before_;
}

void Arena::Take(std::int64_t position, std::int64_t length) {
  if (starts_.empty()) head_ = position;
  if (position == lap_ + bytes_) {
    before_ = lap_;
    lap_ = position;
  }
  starts_.push_back(position);
  tail_ = position + length;
}

void Arena::Free() {
  starts_.pop_front();
  head_ = starts_.empty() ? tail_ : starts_.front();
}

std::int64_t Arena::OffsetOf(std::int64_t position) const { return position == lap_ + bytes_ ? 0 : position - lap_; }

std::int64_t Arena::BytesFor(std::int64_t length) const {
  if (starts_.empty()) return length;
  return IsBetweenLaps() ? 0 : tail_ - lap_ + length;
}

void Arena::StartAt(std::int64_t position) {
  head_ = tail_ = position;
  lap_ = position - position % bytes_;
}

CoreStatus RingView::Open(const Segment& segment, int stream, int channel, const std::vector<int>& tables,
                          RingView* view) {
  const auto refuse = [stream](const char* what, std::int64_t got, std::int64_t wanted) {
    return Error(Code::kInternal, "ring of stream ", stream, ": ", what, " is ", got, ", expected ", wanted);
  };
  const std::int64_t count = static_cast<std::int64_t>(tables.size());
  if (segment.bytes() < static_cast<std::int64_t>(sizeof(layout::Ring))) {
    return refuse("its size", segment.bytes(), sizeof(layout::Ring));
  }
  view->base_ = segment.base();
  view->ring_ = reinterpret_cast<layout::Ring*>(segment.base());
  view->own_ = std::make_shared<Own>();
  view->own_->opened = *view->ring_;
  const layout::Ring& ring = view->own_->opened;
  if (ring.stream != stream) return refuse("its stream", ring.stream, stream);
  if (ring.channel != channel) return refuse("its channel", ring.channel, channel);
  if (ring.table_count != count) return refuse("its number of tables", ring.table_count, count);
  if (ring.frame_count < 1 || ring.frame_count > layout::kMaxFrames) {
    return refuse("its number of frames", ring.frame_count, layout::kMaxFrames);
  }
  const std::int64_t frames_end =
      ring.frames_offset + layout::kMaxFrames * static_cast<std::int64_t>(sizeof(layout::Frame));
  const std::int64_t tables_end = ring.tables_offset + count * static_cast<std::int64_t>(sizeof(layout::RingTable));
  const std::int64_t arena_end = ring.arena_offset + ring.arena_bytes;
  if (ring.frames_offset < static_cast<std::int64_t>(sizeof(layout::Ring)) || frames_end > ring.tables_offset ||
      tables_end > ring.arena_offset || ring.arena_bytes < layout::kCacheLine || arena_end > segment.bytes() ||
      ring.arena_offset % layout::kCacheLine != 0) {
    return refuse("the end of its arena", arena_end, segment.bytes());
  }
  view->frames_ = reinterpret_cast<layout::Frame*>(segment.base() + ring.frames_offset);
  view->tables_ = reinterpret_cast<layout::RingTable*>(segment.base() + ring.tables_offset);
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const int number = view->tables_[i].table, worker = view->tables_[i].worker;
    if (number != tables[i]) return refuse("a table", number, tables[i]);
    if (worker < 0 || worker >= layout::kMaxTableWorkers) {
      return refuse("a table worker", worker, layout::kMaxTableWorkers - 1);
    }
    view->own_->numbers.push_back(number);
    view->own_->workers.push_back(worker);
  }
  return CoreStatus();
}

bool RingView::IsFree(std::int64_t number) const {
  if (LoadAcquire(&frame(number)->closed) == 0) return false;  // SYNC ticket-closed: load
  // The last state of a local ring's frame is DEDUPED, because no table worker serves a local ring. A SUBMITTED frame
  // is not free, because a key worker may still write to it.
  const std::uint32_t last = opened().channel == layout::kLocal ? layout::kDeduped : layout::kRetired;
  for (int index = 0; index < tables(); ++index) {
    if (LoadAcquire(word(index, number)) != last) return false;  // SYNC retired, deduplicated: load
  }
  return true;
}

}  // namespace ascpipe
