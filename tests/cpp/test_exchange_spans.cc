// Spans of a rank's exchanges: the content of each span, and the error for a file that is no ring of spans.
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "check.h"
#include "core/atomics.h"
#include "core/span_ring.h"
#include "peer_ranks.h"
#include "peers/figures.h"

using namespace ascpipe;

namespace {

using Ring = SpanRing<layout::ExchangeSpan>;

constexpr std::int64_t kCapacity = 4;

// File in the form in which the daemon creates it, and a second mapping of its bytes.
class MadeFile {
 public:
  explicit MadeFile(std::int64_t capacity = kCapacity)
      : bytes(static_cast<std::int64_t>(sizeof(layout::TrainerSpans) + kCapacity * sizeof(layout::ExchangeSpan))),
        fd(memfd_create("ascpipe-test", MFD_CLOEXEC)) {
    CHECK_EQ(ftruncate(fd, bytes), 0);
    void* base = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    header = static_cast<layout::TrainerSpans*>(base);
    spans = reinterpret_cast<layout::ExchangeSpan*>(header + 1);
    header->magic = layout::kMagic;
    header->capacity = capacity;
    header->version = layout::kVersion;
  }
  ~MadeFile() {
    munmap(header, static_cast<std::size_t>(bytes));
    close(fd);
  }

  std::shared_ptr<Ring> RingOf(int rank, int ranks) const {
    std::shared_ptr<Ring> ring;
    CHECK(Ring::Map(fd, bytes, rank, ranks, &ring).ok());
    return ring;
  }

  const std::int64_t bytes;
  const int fd;
  layout::TrainerSpans* header;
  layout::ExchangeSpan* spans;
};

PeerFigures::Clock::time_point At(int us) { return PeerFigures::Clock::time_point(std::chrono::microseconds(us)); }

PeerHeader Busy(std::int64_t us, PeerKind kind = PeerKind::kBackward) {
  PeerHeader header;
  header.kind = kind;
  header.busy_us = us;
  header.sequence = 41;
  header.stream = 3;
  header.ticket = 17;
  return header;
}

}  // namespace

TEST(ASpanSaysWhenAnExchangeWasAndWhatWasInIt) {
  MadeFile file;
  const std::shared_ptr<Ring> ring = file.RingOf(1, 3);
  CHECK_EQ(file.header->rank, 1);
  CHECK_EQ(file.header->ranks, 3);
  PeerFigures figures(nullptr, ring.get(), 1, 3);
  const std::int64_t before = NanosecondsSince1970();
  figures.Begin(Busy(0), At(1000));
  figures.Sent({10, 20, 40});
  figures.End({1, 2, 4}, At(1500));
  CHECK_EQ(file.header->count, 0);  // the last rank is not known yet
  figures.Compare({Busy(100), Busy(300), Busy(700)});
  CHECK_EQ(file.header->count, 1);
  const layout::ExchangeSpan& span = file.spans[0];
  CHECK(before <= span.start_ns);
  CHECK(span.duration_ns >= 0);
  CHECK(span.start_ns + span.duration_ns <= NanosecondsSince1970());
  CHECK_EQ(span.sequence, 41);
  CHECK_EQ(span.kind, static_cast<std::int32_t>(PeerKind::kBackward));
  CHECK_EQ(span.stream, 3);
  CHECK_EQ(span.ticket, 17);
  CHECK_EQ(span.bytes_sent, 50);  // without the bytes that the rank sends to itself
  CHECK_EQ(span.bytes_received, 5);
  CHECK_EQ(span.waited_us, 400);
  CHECK_EQ(span.last, 2);
}

TEST(OfTheFirstExchangeAndOfIdleOnesNoRankIsTheLast) {
  MadeFile file;
  const std::shared_ptr<Ring> ring = file.RingOf(0, 2);
  PeerFigures figures(nullptr, ring.get(), 0, 2);
  figures.Compare({Busy(0), Busy(0)});
  figures.Compare({Busy(500), Busy(900, PeerKind::kIdle)});
  figures.Compare({Busy(500), Busy(200)});
  CHECK_EQ(file.header->count, 3);
  CHECK_EQ(file.spans[0].last, -1);
  CHECK_EQ(file.spans[1].last, -1);
  CHECK_EQ(file.spans[1].waited_us, 0);
  CHECK_EQ(file.spans[2].last, 0);
}

TEST(TheLastSpansStay) {
  MadeFile file;
  const std::shared_ptr<Ring> ring = file.RingOf(0, 2);
  for (int number = 0; number < 6; ++number) {
    layout::ExchangeSpan span{};
    span.sequence = number;
    ring->Add(span);
  }
  CHECK_EQ(file.header->count, 6);
  CHECK_EQ(file.spans[0].sequence, 4);
  CHECK_EQ(file.spans[1].sequence, 5);
  CHECK_EQ(file.spans[2].sequence, 2);
  CHECK_EQ(file.spans[3].sequence, 3);
}

TEST(EachRankRecordsTheSameExchanges) {
  MadeFile files[2];
  {
    peer_ranks::Ranks ranks(2, {files[0].RingOf(0, 2), files[1].RingOf(1, 2)});
    CHECK(ranks.All(peer_ranks::Header(PeerKind::kForward, 1, 8)) == VerdictKind::kGo);
    CHECK(ranks.All(peer_ranks::Header(PeerKind::kBackward, 1, 8)) == VerdictKind::kApply);
  }
  for (const MadeFile& file : files) {
    CHECK_EQ(LoadAcquire(&file.header->count), 2);
    for (int number = 0; number < 2; ++number) {
      const layout::ExchangeSpan& span = file.spans[number];
      CHECK_EQ(span.sequence, number + 1);
      CHECK_EQ(span.ticket, 8);
      CHECK(span.bytes_sent > 0);
      CHECK_EQ(span.kind, static_cast<std::int32_t>(number == 0 ? PeerKind::kForward : PeerKind::kBackward));
    }
    CHECK(file.spans[0].start_ns + file.spans[0].duration_ns <= file.spans[1].start_ns);
  }
}

TEST(AFileThatIsTooSmallForItsSpansOrHasNoneIsRefused) {
  std::shared_ptr<Ring> ring;
  for (const std::int64_t capacity : {std::int64_t{0}, kCapacity + 1, INT64_MAX}) {
    MadeFile file(capacity);
    CHECK(peer_ranks::Has(Ring::Map(file.fd, file.bytes, 0, 2, &ring).text(), "too few for its spans"));
  }
  MadeFile file;
  CHECK(!Ring::Map(file.fd, 64, 0, 2, &ring).ok());
  file.header->version = layout::kVersion + 1;
  CHECK(peer_ranks::Has(Ring::Map(file.fd, file.bytes, 0, 2, &ring).text(), "layout version"));
  CHECK(ring == nullptr);
}
