#include "core/dealt_gradients.h"

#include <algorithm>

#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kChunk = 8192;  // positions per chunk
constexpr std::int64_t kDealtAhead = 8;
constexpr std::int32_t kDealtGroup = 4;  // adjacent rows, which may share a cache line, are in one hand

inline std::int64_t HandOf(std::int32_t place) { return place / kDealtGroup % DealtGradients::kHands; }

}  // namespace

constexpr std::int64_t DealtGradients::kHands;

DealtGradients::DealtGradients(const std::int32_t* places, std::int64_t place_count,
                               const std::vector<LookupGradient>& lookups, std::int64_t dim)
    : places_(places), place_count_(place_count), lookups_(lookups), dim_(dim) {
  for (std::size_t lookup = 0; lookup < lookups.size(); ++lookup) {
    for (std::int64_t begin = 0; begin < lookups[lookup].n; begin += kChunk) {
      chunks_.emplace_back();
      chunks_.back().lookup = static_cast<int>(lookup);
      chunks_.back().begin = begin;
      chunks_.back().end = std::min(lookups[lookup].n, begin + kChunk);
    }
  }
}

void DealtGradients::Deal(std::int64_t begin, std::int64_t end) {
  for (std::int64_t chunk = begin; chunk < end; ++chunk) DealChunk(&chunks_[chunk]);
}

void DealtGradients::DealChunk(Chunk* chunk) const {
  const std::int32_t* const restore = lookups_[chunk->lookup].restore;
  std::int32_t found[kChunk];
  std::int32_t counts[kHands] = {0};
  for (std::int64_t i = chunk->begin; i < chunk->end; ++i) {
    const std::uint32_t index = static_cast<std::uint32_t>(restore[i]);
    std::int32_t place = -1;
    if (index < static_cast<std::uint64_t>(place_count_)) {
      place = places_[index];
    } else if (restore[i] != -1) {
      chunk->bad = i;
      return;
    }
    found[i - chunk->begin] = place;
    if (place >= 0) ++counts[HandOf(place)];
  }
  std::int32_t next[kHands];
  for (std::int64_t hand = 0; hand < kHands; ++hand) {
    next[hand] = chunk->hands[hand];
    chunk->hands[hand + 1] = chunk->hands[hand] + counts[hand];
  }
  chunk->cards.resize(static_cast<std::size_t>(chunk->hands[kHands]));
  for (std::int64_t i = chunk->begin; i < chunk->end; ++i) {
    const std::int32_t place = found[i - chunk->begin];
    if (place >= 0) chunk->cards[next[HandOf(place)]++] = {static_cast<std::int32_t>(i), place};
  }
}

BadIndex DealtGradients::bad() const {
  BadIndex bad;
  for (const Chunk& chunk : chunks_) {
    if (chunk.bad < 0) continue;
    bad.lookup = chunk.lookup;
    bad.position = chunk.bad;
    break;
  }
  return bad;
}

template <std::int64_t constant_dim>
ASC_INLINE void DealtGradients::AddHand(std::int64_t hand, float* sums) const {
  const std::int64_t dim = constant_dim != 0 ? constant_dim : dim_;
  for (const Chunk& chunk : chunks_) {
    const LookupGradient& lookup = lookups_[chunk.lookup];
    const auto gradient = [&lookup, dim](std::int32_t position) {
      if (lookup.side_by_side == 1) return lookup.grads + position * lookup.stride;
      const std::int32_t side_by_side = static_cast<std::int32_t>(lookup.side_by_side);
      return lookup.grads + position / side_by_side * lookup.stride + position % side_by_side * dim;
    };
    const std::int32_t end = chunk.hands[hand + 1];
    for (std::int32_t i = chunk.hands[hand]; i < end; ++i) {
      if (i + kDealtAhead < end) {
        const Card& ahead = chunk.cards[i + kDealtAhead];
        PrefetchRead(gradient(ahead.position), dim);
        PrefetchRow(sums + ahead.place * dim, dim);
      }
      AddRow(sums + chunk.cards[i].place * dim, gradient(chunk.cards[i].position), dim);
    }
  }
}

ASC_FOR_EACH_PROCESSOR
void DealtGradients::Add(std::int64_t begin, std::int64_t end, std::int64_t valid, float* sums) const {
  for (std::int64_t hand = begin; hand < end; ++hand) {
    for (std::int64_t first = hand * kDealtGroup; first < valid; first += kHands * kDealtGroup) {
      std::fill(sums + first * dim_, sums + std::min<std::int64_t>(valid, first + kDealtGroup) * dim_, 0.0f);
    }
    WithLength(dim_, [=](auto length) ASC_INLINED { AddHand<length>(hand, sums); });
  }
}

}  // namespace ascpipe
