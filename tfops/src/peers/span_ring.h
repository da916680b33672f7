// Ring that contains the latest exchanges of a rank, for `ascpipe timeline`. The ring is in a file that the daemon
// creates.
#ifndef ASCPIPE_PEERS_SPAN_RING_H_
#define ASCPIPE_PEERS_SPAN_RING_H_

#include <cstdint>
#include <memory>

#include "core/core_status.h"
#include "core/layout.h"
#include "core/segment.h"

namespace ascpipe {

// One thread writes the ring. ascpipe/shm/exchange_spans.py reads the file concurrently.
class SpanRing {
 public:
  // Maps the file. The caller keeps ownership of `fd`. `rank` is the rank of this process.
  static CoreStatus Map(int fd, std::int64_t bytes, int rank, int ranks, std::shared_ptr<SpanRing>* spans);

  void Add(const layout::ExchangeSpan& span);

 private:
  explicit SpanRing(std::unique_ptr<Segment> segment);

  const std::unique_ptr<Segment> segment_;
  layout::ExchangeSpans* const header_;
  layout::ExchangeSpan* const spans_;
  const std::int64_t capacity_;
};

}  // namespace ascpipe

#endif  // ASCPIPE_PEERS_SPAN_RING_H_
