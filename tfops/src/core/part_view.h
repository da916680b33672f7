// The trainer's view of one part of a frame.
#ifndef ASCPIPE_CORE_PART_VIEW_H_
#define ASCPIPE_CORE_PART_VIEW_H_

#include <cstddef>
#include <cstdint>

#include "core/frame_record.h"
#include "core/layout.h"
#include "core/ring.h"

namespace ascpipe {

// A PartView is valid as long as the ring and the ticket of the frame exist.
//
// Every array of the part has space for `ids()` values. Callers must validate the contents of shared() and of the
// arrays before use, because workers write them.
class PartView {
 public:
  PartView() = default;
  PartView(const RingView& ring, const FrameRecord& record, int index)
      : ring_(&ring), record_(&record), index_(index), base_(ring.base() + record.frame.offset) {}

  const RingView& ring() const { return *ring_; }
  int index() const { return index_; }  // index of the table in the ring
  std::int64_t frame() const { return record_->frame.number; }
  std::int64_t ticket() const { return record_->frame.ticket; }
  std::uint32_t* word() const { return ring_->word(index_, frame()); }

  std::int64_t ids() const { return placed().id_count; }
  std::int64_t features() const { return placed().spec_count; }
  const layout::Spec& spec(int feature) const {
    return record_->specs[record_->first_spec[static_cast<std::size_t>(index_)] + static_cast<std::size_t>(feature)];
  }

  // Returns the part in the ring. Callers may read only the members that workers write.
  const layout::Part& shared() const { return reinterpret_cast<const layout::Part*>(base_)[index_]; }
  // Returns an array of the part.
  template <typename T>
  const T* array(std::int64_t layout::Part::*field) const {
    return reinterpret_cast<const T*>(base_ + placed().*field);
  }

 private:
  const layout::Part& placed() const { return record_->parts[static_cast<std::size_t>(index_)]; }

  const RingView* ring_ = nullptr;
  const FrameRecord* record_ = nullptr;
  int index_ = 0;
  std::uint8_t* base_ = nullptr;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_PART_VIEW_H_
