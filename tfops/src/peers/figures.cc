#include "peers/figures.h"

#include <algorithm>
#include <numeric>

#include "core/atomics.h"

namespace ascpipe {

namespace {

std::int64_t Microseconds(PeerFigures::Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

// Returns the sum of the sizes of all ranks except `rank`. A faulty transport may return fewer sizes.
std::int64_t SumWithout(std::int32_t rank, const std::vector<std::int64_t>& sizes) {
  const std::size_t own = static_cast<std::size_t>(rank);
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) - (own < sizes.size() ? sizes[own] : 0);
}

}  // namespace

PeerFigures::PeerFigures(layout::Exchanges* shared, SpanRing<layout::ExchangeSpan>* spans, int rank, int ranks)
    : record_(shared != nullptr ? shared : &own_), spans_(spans), awaited_us_(static_cast<std::size_t>(ranks)) {
  StoreRelease(&record_->rank, rank);
  StoreRelease(&record_->ranks, ranks);
}

std::int64_t PeerFigures::Begin(const PeerHeader& header, Clock::time_point now) {
  is_pulse_ = header.is_pulse();
  begun_ = now;
  if (spans_ != nullptr) {
    span_.start_ns = NanosecondsSince1970();
    span_.kind = static_cast<std::int32_t>(header.kind);
    span_.stream = header.stream;
    span_.ticket = header.ticket;
  }
  StoreRelease(&record_->kind, static_cast<std::int32_t>(header.kind));
  StoreRelease(&record_->stream, header.stream);
  StoreRelease(&record_->ticket, header.ticket);
  StoreRelease(&record_->since_us, Microseconds(now.time_since_epoch()));  // steady_clock is CLOCK_MONOTONIC
  return ended_ == Clock::time_point() ? 0 : Microseconds(now - ended_);
}

void PeerFigures::Sent(const std::vector<std::int64_t>& sizes) {
  span_.bytes_sent = SumWithout(record_->rank, sizes);
  Count(&record_->bytes_sent, span_.bytes_sent);
}

void PeerFigures::End(const std::vector<std::int64_t>& sizes, Clock::time_point now) {
  over_ = now;
  Count(&record_->exchanges, std::int64_t{1});
  span_.bytes_received = SumWithout(record_->rank, sizes);
  Count(&record_->bytes_received, span_.bytes_received);
  if (spans_ != nullptr) span_.duration_ns = NanosecondsSince1970() - span_.start_ns;
  if (!is_pulse_) Count(&record_->time_us, Microseconds(now - begun_));
  StoreRelease(&record_->since_us, std::int64_t{0});
}

void PeerFigures::Compare(const std::vector<PeerHeader>& headers) {
  if (std::any_of(headers.begin(), headers.end(), [](const PeerHeader& h) { return h.is_pulse(); })) {
    Record(headers, -1, 0);  // The other ranks send their messages again.
    return;
  }
  ended_ = over_;
  std::size_t last = 0;
  std::int64_t before = 0;  // busy time of the second-slowest rank
  for (std::size_t rank = 0; rank < headers.size(); ++rank) {
    if (rank == 0) continue;
    const std::int64_t busy = headers[rank].busy_us;
    before = std::max(before, std::min(busy, headers[last].busy_us));
    if (busy > headers[last].busy_us) last = rank;
  }
  const std::int64_t most = headers[last].busy_us;
  const std::int64_t waited = most - headers[static_cast<std::size_t>(record_->rank)].busy_us;
  Record(headers, most == 0 ? -1 : static_cast<std::int32_t>(last), waited);  // most == 0: this is the first exchange
  Count(&record_->waited_us, waited);
  awaited_us_[last] += most - before;
  const auto slowest = std::max_element(awaited_us_.begin(), awaited_us_.end());
  StoreRelease(&record_->slowest, static_cast<std::int32_t>(slowest - awaited_us_.begin()));
  StoreRelease(&record_->slowest_us, *slowest);
}

void PeerFigures::Record(const std::vector<PeerHeader>& headers, std::int32_t last, std::int64_t waited_us) {
  if (spans_ == nullptr) return;
  span_.sequence = headers[static_cast<std::size_t>(record_->rank)].sequence;
  span_.last = last;
  span_.waited_us = waited_us;
  spans_->Add(span_);
}

}  // namespace ascpipe
