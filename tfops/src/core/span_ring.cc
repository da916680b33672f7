#include "core/span_ring.h"

#include <chrono>

namespace ascpipe {

std::int64_t NanosecondsSince1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

CoreStatus SpanFile::Map(int fd, std::int64_t bytes, std::int64_t span_bytes, int rank, int ranks,
                         std::unique_ptr<SpanFile>* file) {
  constexpr std::int64_t kHeader = sizeof(layout::TrainerSpans);
  std::unique_ptr<Segment> segment;
  const CoreStatus status = Segment::Map(fd, bytes, "the file of spans", &segment);
  if (!status.ok()) return status;
  const std::int64_t room = (bytes - kHeader) / span_bytes;
  std::unique_ptr<SpanFile> mapped(new SpanFile(std::move(segment)));
  layout::TrainerSpans* const header = mapped->header();
  if (bytes < kHeader || header->capacity < 1 || header->capacity > room) {
    return Error(Code::kInternal, "the file of spans has ", bytes, " bytes, too few for its spans");
  }
  header->rank = rank;
  StoreRelease(&header->ranks, ranks);
  *file = std::move(mapped);
  return CoreStatus();
}

}  // namespace ascpipe
