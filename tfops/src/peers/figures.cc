#include "peers/figures.h"

#include <algorithm>
#include <numeric>

#include "core/atomics.h"

namespace ascpipe {

namespace {

std::int64_t Microseconds(PeerFigures::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

// Of all ranks but one; a transport that is at fault may give fewer sizes.
std::int64_t SumWithout(std::int32_t rank, const std::vector<std::int64_t>& sizes) {
  const std::size_t own = static_cast<std::size_t>(rank);
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) - (own < sizes.size() ? sizes[own] : 0);
}

}  // namespace

PeerFigures::PeerFigures(layout::Exchanges* shared, int rank, int ranks)
    : record_(shared != nullptr ? shared : &own_), awaited_us_(static_cast<std::size_t>(ranks)) {
  StoreRelease(&record_->rank, rank);
  StoreRelease(&record_->ranks, ranks);
}

std::int64_t PeerFigures::Begin(const PeerHeader& header, Clock::time_point now) {
  is_idle_ = header.kind == PeerKind::kIdle;
  begun_ = now;
  StoreRelease(&record_->kind, static_cast<std::int32_t>(header.kind));
  StoreRelease(&record_->stream, header.stream);
  StoreRelease(&record_->ticket, header.ticket);
  StoreRelease(&record_->since_us, Microseconds(now.time_since_epoch()));  // steady_clock is CLOCK_MONOTONIC
  return ended_ == Clock::time_point() ? 0 : Microseconds(now - ended_);
}

void PeerFigures::Sent(const std::vector<std::int64_t>& sizes) {
  Count(&record_->bytes_sent, SumWithout(record_->rank, sizes));
}

void PeerFigures::End(const std::vector<std::int64_t>& sizes, Clock::time_point now) {
  ended_ = now;
  Count(&record_->exchanges, std::int64_t{1});
  Count(&record_->bytes_received, SumWithout(record_->rank, sizes));
  if (!is_idle_) Count(&record_->time_us, Microseconds(now - begun_));
  StoreRelease(&record_->since_us, std::int64_t{0});
}

void PeerFigures::Compare(const std::vector<PeerHeader>& headers) {
  std::size_t last = 0;
  std::int64_t before = 0;  // of the last but one
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (headers[rank].kind == PeerKind::kIdle) return;  // no rank waits
    if (rank == 0) continue;
    const std::int64_t busy = headers[rank].busy_us;
    before = std::max(before, std::min(busy, headers[last].busy_us));
    if (busy > headers[last].busy_us) last = rank;
  }
  const std::int64_t most = headers[last].busy_us;
  Count(&record_->waited_us, most - headers[static_cast<std::size_t>(record_->rank)].busy_us);
  awaited_us_[last] += most - before;
  const auto slowest = std::max_element(awaited_us_.begin(), awaited_us_.end());
  StoreRelease(&record_->slowest, static_cast<std::int32_t>(slowest - awaited_us_.begin()));
  StoreRelease(&record_->slowest_us, *slowest);
}

}  // namespace ascpipe
