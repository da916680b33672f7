// Segments for one process, in the form in which the supervisor creates segments.
#ifndef ASCPIPE_TESTS_CPP_SEGMENTS_H_
#define ASCPIPE_TESTS_CPP_SEGMENTS_H_

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "core/ring.h"
#include "core/segment.h"
#include "core/stream.h"

// Returns a segment of shared memory with the version and magic number of the layout.
inline std::unique_ptr<ascpipe::Segment> MakeSegment(std::int64_t bytes, void (*fill)(std::uint8_t*, const void*),
                                                     const void* argument) {
  const int fd = memfd_create("ascpipe-test", MFD_CLOEXEC);
  if (ftruncate(fd, bytes) != 0) return nullptr;
  void* base = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::uint32_t* words = static_cast<std::uint32_t*>(base);
  words[0] = ascpipe::layout::kVersion;
  words[1] = ascpipe::layout::kMagic;
  if (fill != nullptr) fill(static_cast<std::uint8_t*>(base), argument);
  munmap(base, static_cast<std::size_t>(bytes));
  std::unique_ptr<ascpipe::Segment> segment;
  ascpipe::Segment::Map(fd, bytes, "test segment", &segment);
  close(fd);
  return segment;
}

struct RingPlan {
  int frames;
  int tables;
  std::int64_t arena_bytes;
  int channel = 0;
  int look_ahead = 0;
};

// A session, one ring of `tables` tables with one feature each, and the trainer's stream of the ring.
class TestRing {
 public:
  explicit TestRing(const RingPlan& plan)
      : session_(MakeSegment(ascpipe::layout::kSessionBytes, nullptr, nullptr)), session(session_->base()) {
    using namespace ascpipe;
    const std::int64_t frames = layout::Align(sizeof(layout::Ring));
    const std::int64_t tables = frames + layout::kMaxFrames * sizeof(layout::Frame);
    const std::int64_t arena = layout::Align(tables + plan.tables * sizeof(layout::RingTable), layout::kPage);
    std::unique_ptr<Segment> segment = MakeSegment(arena + plan.arena_bytes, nullptr, nullptr);
    layout::Ring* ring = reinterpret_cast<layout::Ring*>(segment->base());
    ring->channel = plan.channel;
    ring->frame_count = plan.frames;
    ring->look_ahead = plan.look_ahead;
    ring->table_count = plan.tables;
    ring->arena_offset = arena;
    ring->arena_bytes = plan.arena_bytes;
    ring->frames_offset = frames;
    ring->tables_offset = tables;
    std::vector<int> numbers;
    layout::RingTable* ring_tables = reinterpret_cast<layout::RingTable*>(segment->base() + tables);
    for (int i = 0; i < plan.tables; ++i) {
      ring_tables[i].table = i;
      numbers.push_back(i);
    }
    status = RingView::Open(*segment, 0, plan.channel, numbers, &view);
    stream.reset(new Stream(3, 0, std::move(segment), view, session));
  }

  // Returns a part, or an array of a part, in the memory that workers see.
  ascpipe::layout::Part* part(std::int64_t number, int index) const {
    return reinterpret_cast<ascpipe::layout::Part*>(view.base() + view.frame(number)->offset) + index;
  }
  template <typename T>
  T* array(std::int64_t number, std::int64_t offset) const {
    return reinterpret_cast<T*>(view.base() + view.frame(number)->offset + offset);
  }

 private:
  std::unique_ptr<ascpipe::Segment> session_;  // before the members that use the segment

 public:
  ascpipe::SessionView session;
  ascpipe::CoreStatus status;
  ascpipe::RingView view;
  std::unique_ptr<ascpipe::Stream> stream;
};

// A batch whose features all have the same ids.  It counts the batches that are alive.
class TestBatch : public ascpipe::Batch {
 public:
  TestBatch(int feature_count, std::vector<std::int64_t> ids, std::atomic<int>* alive)
      : ids_(std::move(ids)), alive_(alive) {
    ++*alive_;
    for (int i = 0; i < feature_count; ++i) {
      ascpipe::FeatureIds feature;
      feature.data = ids_.data();
      feature.is_int32 = false;
      feature.count = static_cast<std::int64_t>(ids_.size());
      feature.shape = {feature.count};
      feature.table = i;
      features.push_back(feature);
    }
  }
  ~TestBatch() override { --*alive_; }

 private:
  std::vector<std::int64_t> ids_;
  std::atomic<int>* alive_;
};

#endif  // ASCPIPE_TESTS_CPP_SEGMENTS_H_
