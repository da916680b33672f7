#include "peers/span_ring.h"

#include <utility>

#include "core/atomics.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kHeader = sizeof(layout::ExchangeSpans), kSpan = sizeof(layout::ExchangeSpan);

}  // namespace

CoreStatus SpanRing::Map(int fd, std::int64_t bytes, int rank, int ranks, std::shared_ptr<SpanRing>* spans) {
  std::unique_ptr<Segment> segment;
  const CoreStatus status = Segment::Map(fd, bytes, "the file of exchange spans", &segment);
  if (!status.ok()) return status;
  const std::int64_t room = (bytes - kHeader) / kSpan;
  layout::ExchangeSpans* const header = reinterpret_cast<layout::ExchangeSpans*>(segment->base());
  if (bytes < kHeader || header->capacity < 1 || header->capacity > room) {
    return Error(Code::kInternal, "the file of exchange spans has ", bytes, " bytes, too few for its spans");
  }
  header->rank = rank;
  StoreRelease(&header->ranks, ranks);
  spans->reset(new SpanRing(std::move(segment)));
  return CoreStatus();
}

SpanRing::SpanRing(std::unique_ptr<Segment> segment)
    : segment_(std::move(segment)),
      header_(reinterpret_cast<layout::ExchangeSpans*>(segment_->base())),
      spans_(reinterpret_cast<layout::ExchangeSpan*>(segment_->base() + kHeader)),
      capacity_(header_->capacity) {}

void SpanRing::Add(const layout::ExchangeSpan& span) {
  const std::int64_t count = header_->count;
  spans_[count % capacity_] = span;
  // SYNC exchange-spans: store. This full fence makes sure that readers see the new count before the next call
  // overwrites an old span.
  Exchange(&header_->count, count + 1);
}

}  // namespace ascpipe
