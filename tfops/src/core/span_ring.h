// Ring that contains the latest spans of a trainer, for `ascpipe timeline`. The ring is in a file that the daemon
// creates.
#ifndef ASCPIPE_CORE_SPAN_RING_H_
#define ASCPIPE_CORE_SPAN_RING_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "core/atomics.h"
#include "core/core_status.h"
#include "core/layout.h"
#include "core/segment.h"

namespace ascpipe {

// Returns the current time from the clock that TensorFlow's traces use.
std::int64_t NanosecondsSince1970();

// Mapped file of spans of `span_bytes` bytes each.
class SpanFile {
 public:
  // Maps the file. The caller keeps ownership of `fd`. `rank` is the rank of this process.
  static CoreStatus Map(int fd, std::int64_t bytes, std::int64_t span_bytes, int rank, int ranks,
                        std::unique_ptr<SpanFile>* file);

  layout::TrainerSpans* header() const { return reinterpret_cast<layout::TrainerSpans*>(segment_->base()); }
  std::uint8_t* spans() const { return segment_->base() + sizeof(layout::TrainerSpans); }

 private:
  explicit SpanFile(std::unique_ptr<Segment> segment) : segment_(std::move(segment)) {}

  const std::unique_ptr<Segment> segment_;
};

// One thread at a time writes the ring. ascpipe/shm/trainer_spans.py reads the file concurrently.
template <typename Span>
class SpanRing {
 public:
  // Same as SpanFile::Map.
  static CoreStatus Map(int fd, std::int64_t bytes, int rank, int ranks, std::shared_ptr<SpanRing>* ring) {
    std::unique_ptr<SpanFile> file;
    const CoreStatus status = SpanFile::Map(fd, bytes, sizeof(Span), rank, ranks, &file);
    if (status.ok()) ring->reset(new SpanRing(std::move(file)));
    return status;
  }

  void Add(const Span& span) {
    layout::TrainerSpans* const header = file_->header();
    const std::int64_t count = header->count;
    reinterpret_cast<Span*>(file_->spans())[count % capacity_] = span;
    // SYNC trainer-spans: store. The full fence ensures that readers see the new count before the next call overwrites
    // an old span.
    Exchange(&header->count, count + 1);
  }

 private:
  explicit SpanRing(std::unique_ptr<SpanFile> file) : file_(std::move(file)), capacity_(file_->header()->capacity) {}

  const std::unique_ptr<SpanFile> file_;
  const std::int64_t capacity_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_SPAN_RING_H_
