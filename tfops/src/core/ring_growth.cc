#include "core/ring_growth.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/atomics.h"

namespace ascpipe {

namespace {

// A ring with at least this many frames waits for free space instead of growing beyond `rings_ample`. With a lower
// limit, workers would wait for batches. With the look-ahead as the limit, large batches could use up the budget.
constexpr std::int64_t kFramesOfLargeBatches = 8;

constexpr std::int64_t kSlice = std::int64_t{64} << 20;  // about 10 ms; a stop is checked after each slice

std::int64_t WholePages(std::int64_t bytes) { return bytes & ~(layout::kPage - 1); }

}  // namespace

bool RingBudget::Take(std::int64_t bytes) {
  if (left_.fetch_sub(bytes) >= bytes) return true;
  left_.fetch_add(bytes);
  return false;
}

RingGrowth::RingGrowth(const RingView& ring, const SessionView& session, int fd, std::int64_t segment_bytes,
                       std::shared_ptr<RingBudget> budget, MemoryPlaces places)
    : ring_(ring),
      session_(session),
      fd_(fd),
      reserved_(WholePages(segment_bytes - ring.opened().arena_offset)),
      budget_(std::move(budget)),
      places_(std::move(places)) {}

std::int64_t RingGrowth::Most(const Arena& arena) const {
  if (fd_.get() < 0) return arena.bytes();
  const std::int64_t left = std::max<std::int64_t>(0, budget_->left());
  return std::max(arena.bytes(), std::min(reserved_, WholePages(arena.bytes() + left)));
}

RingGrowth::Answer RingGrowth::Place(Arena* arena, std::int64_t length, std::int64_t frames, std::int64_t* position,
                                     std::string* why) {
  const std::int64_t most = Most(*arena);
  if (length > most) {
    *why = Advice(*arena, length, "");
    return kNever;
  }
  if (frames >= ring_.opened().frame_count) return kWait;
  if (arena->Find(length, position)) return kPlaced;
  const std::int64_t bytes = layout::Align(arena->BytesFor(length), layout::kPage);
  if (bytes == 0 || bytes > most) return kWait;
  const std::int64_t ample = session_.session->rings_ample;
  const bool can_wait = length <= arena->bytes();
  if (can_wait && bytes > ample && frames >= kFramesOfLargeBatches) return kWait;
  // Memory that was refused before is requested again only if the arena has no frame to wait for.
  if (length <= refused_ && !arena->empty()) return kWait;
  // Grow by more than the frame needs, so that the ring rarely grows.
  const std::int64_t step = bytes <= ample ? std::min(ample, 2 * arena->bytes()) : bytes + bytes / 8;
  CoreStatus grown = Grow(arena, WholePages(std::min(most, std::max(bytes, step))));
  if (!grown.ok()) grown = Grow(arena, bytes);
  if (grown.ok()) return arena->Find(length, position) ? kPlaced : kWait;
  if (budget_->stopped()) return kWait;
  refused_ = std::max(refused_, length);
  if (!arena->empty()) return kWait;
  *why = Advice(*arena, length, grown.text());
  return kNever;
}

CoreStatus RingGrowth::Grow(Arena* arena, std::int64_t bytes) {
  const std::int64_t more = bytes - arena->bytes();
  if (!budget_->Take(more)) return Error(Code::kResourceExhausted, "other rings have taken it");
  CoreStatus status = RequireMemory(fd_.get(), more, places_);
  if (status.ok()) status = Allocate(arena->bytes(), bytes);
  if (!status.ok()) {
    budget_->GiveBack(more);
    return status;
  }
  arena->Grow(bytes);
  StoreRelease(&ring_.header()->arena_bytes, bytes);
  return status;
}

CoreStatus RingGrowth::Allocate(std::int64_t from, std::int64_t to) const {
  while (from < to) {
    if (budget_->stopped()) return Error(Code::kCancelled, "the pipeline was stopped");
    const std::int64_t size = std::min(kSlice, to - from);
    const int error = posix_fallocate(fd_.get(), ring_.opened().arena_offset + from, size);
    if (error == EINTR) continue;
    if (error != 0) return Error(Code::kResourceExhausted, "the kernel says ", std::strerror(error));
    from += size;
  }
  return CoreStatus();
}

std::string RingGrowth::Advice(const Arena& arena, std::int64_t length, const std::string& no_memory) const {
  const layout::Session& session = *session_.session;
  const std::string needs = Text("needs ", length, " bytes in the ring, which has ", arena.bytes());
  const std::string larger = Text(length, " or more (", kFramesOfLargeBatches, " times that lets batches wait there)");
  if (!no_memory.empty()) {
    return Text(needs, ", and the machine has no memory for more: ", no_memory,
                ". Nothing was lost. Use a smaller batch, "
                "or give the machine or container more memory");
  }
  if (session.rings_most > 0) {
    return Text(needs, " and may have ", Most(arena), ", as all rings together may have ", session.rings_most, " (",
                session.rings_most - std::max<std::int64_t>(0, budget_->left()),
                " are taken). Nothing was lost. Use a "
                "smaller batch, or ",
                session.is_private != 0 ? "" : "start the daemon again: ascpipe stop, then ",
                "set the environment variable ASCPIPE_RING_PERCENT to a larger part of the memory, or "
                "ASCPIPE_RING_BYTES, for each ring, to ",
                larger, session.is_private != 0 ? "" : ", where it is started",
                "; ring_percent and ring_bytes in the file that ASCPIPE_CONFIG names are the same");
  }
  if (session.is_private != 0) {
    return Text(needs,
                ". Nothing was lost. Use a smaller batch, or set the environment variable ASCPIPE_RING_BYTES, or "
                "ring_bytes in the file that ASCPIPE_CONFIG names, to ",
                larger, "; where neither is set, the ring grows with the batches");
  }
  return Text(
      needs,
      ". Nothing was lost. Use a smaller batch, or start the daemon again with a larger ring: ascpipe stop, "
      "then ascpipe start --ring-bytes, with ",
      larger,
      ", or ring_bytes in the file that ASCPIPE_CONFIG names where the daemon is started; where neither is given, "
      "the ring grows with the batches");
}

}  // namespace ascpipe
