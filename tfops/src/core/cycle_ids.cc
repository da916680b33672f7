#include "core/cycle_ids.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/stream.h"

namespace ascpipe {

namespace {

// Number of used batches whose ids are merged into one list. Merging after every batch would be slower.
constexpr std::ptrdiff_t kMerged = 8;

void SortDistinct(std::vector<std::int64_t>* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace

void CycleIds::SetSteps(int table, std::int64_t steps) {
  Cycle& cycle = CycleOf(table);
  if (steps == 1) cycle = Cycle();
  cycle.steps = steps;
}

bool CycleIds::Any() const {
  return std::any_of(cycles_.begin(), cycles_.end(), [](const Cycle& cycle) { return cycle.steps != 1; });
}

void CycleIds::SetBefore(std::int64_t batches, std::int64_t open) {
  Drop(open);
  const std::int64_t moved = batches + Unused() - count_;
  for (Cycle& cycle : cycles_) {
    if (moved % cycle.steps != 0) cycle.before = std::max(cycle.before, open);
  }
  count_ += moved;
}

void CycleIds::SetIds(int table, std::int64_t open, std::vector<std::int64_t> ids) {
  Cycle& cycle = CycleOf(table);
  Drop(open);
  while (!cycle.kept.empty() && cycle.kept.front().sequence <= used_) cycle.kept.pop_front();
  if (!ids.empty()) cycle.before = std::max(cycle.before, open);
  cycle.restored = std::move(ids);
  cycle.restored_at = 0;
}

bool CycleIds::IsOfBefore(std::int64_t sequence, std::int64_t steps) const {
  return std::any_of(cycles_.begin(), cycles_.end(),
                     [=](const Cycle& cycle) { return cycle.steps == steps && sequence <= cycle.before; });
}

CycleIds::Cycle& CycleIds::CycleOf(int table) {
  const std::size_t place = static_cast<std::size_t>(table);
  if (cycles_.size() <= place) cycles_.resize(place + 1);
  return cycles_[place];
}

CyclePlace CycleIds::Pass(std::int64_t sequence, std::int64_t open, Batch* batch) {
  Forget(open);
  if (counted_.empty() || counted_.back().last + 1 != sequence) counted_.push_back(Range{sequence, sequence});
  counted_.back().last = sequence;
  CyclePlace place;
  place.number = ++count_;
  for (std::size_t table = 0; table < cycles_.size(); ++table) {
    Cycle& cycle = cycles_[table];
    const int index = static_cast<int>(table);
    place.steps.push_back(cycle.steps);
    if (cycle.steps == 1) continue;
    const bool ends = place.Ends(index);
    if (ends) {
      std::vector<std::int64_t> ids = IdsOfLast(&cycle, sequence);
      if (!ids.empty()) batch->Append(index, std::move(ids));
    }
    cycle.kept.push_back(Kept{sequence, ends, ends ? std::vector<std::int64_t>() : DistinctIds(*batch, index)});
  }
  return place;
}

void CycleIds::Drop(std::int64_t sequence) {
  sequence = std::max(sequence, used_);
  const std::int64_t before = Unused();
  while (!counted_.empty() && counted_.back().first > sequence) counted_.pop_back();
  if (!counted_.empty()) counted_.back().last = std::min(counted_.back().last, sequence);
  count_ -= before - Unused();
  for (Cycle& cycle : cycles_) {
    while (!cycle.kept.empty() && cycle.kept.back().sequence > sequence) cycle.kept.pop_back();
    if (cycle.restored_at > sequence) cycle.restored_at = 0;
  }
}

// Returns the number of counted batches after the last used batch.
std::int64_t CycleIds::Unused() const {
  std::int64_t unused = 0;
  for (const Range& range : counted_) {
    unused += std::max(range.last - std::max(range.first - 1, used_), std::int64_t{0});
  }
  return unused;
}

// Frees the ids that no later cycle can need, whether or not Drop is called again. Drop removes only batches after the
// last used batch or after an open batch.
void CycleIds::Forget(std::int64_t open) {
  while (!counted_.empty() && counted_.front().last <= used_) counted_.pop_front();
  for (Cycle& cycle : cycles_) {
    std::deque<Kept>& kept = cycle.kept;
    const auto last_end = [&](std::int64_t before) {
      return std::find_if(kept.rbegin(), kept.rend(),
                          [before](const Kept& each) { return each.ends && each.sequence < before; })
          .base();
    };
    kept.erase(kept.begin(), last_end(used_ + 1));
    const auto behind = [&](std::int64_t sequence) {
      return std::find_if(kept.begin(), kept.end(), [&](const Kept& each) { return each.sequence > sequence; });
    };
    const auto end = last_end(open);
    if (end != kept.begin() && behind(used_) < end - 1) kept.erase(behind(used_), end - 1);  // keeps the end itself
    const auto used = behind(used_);
    if (used - kept.begin() >= kMerged) {
      std::vector<std::int64_t> ids;
      for (auto each = kept.begin(); each != used; ++each) ids.insert(ids.end(), each->ids.begin(), each->ids.end());
      SortDistinct(&ids);
      ids.shrink_to_fit();
      const auto merged = kept.erase(kept.begin(), used - 1);
      merged->ids = std::move(ids);
    }
    if (cycle.restored_at != 0 && cycle.restored_at <= used_) cycle.restored = std::vector<std::int64_t>();
  }
}

std::vector<std::int64_t> CycleIds::DistinctIds(const Batch& batch, int table) {
  std::vector<std::int64_t> ids;
  for (const FeatureIds& feature : batch.features) {
    if (feature.table != table) continue;
    if (feature.is_int32) {
      const std::int32_t* const from = static_cast<const std::int32_t*>(feature.data);
      ids.insert(ids.end(), from, from + feature.count);
    } else {
      const std::int64_t* const from = static_cast<const std::int64_t*>(feature.data);
      ids.insert(ids.end(), from, from + feature.count);
    }
  }
  SortDistinct(&ids);
  ids.shrink_to_fit();
  return ids;
}

// Returns the ids to append to the last batch of a cycle.
std::vector<std::int64_t> CycleIds::IdsOfLast(Cycle* cycle, std::int64_t sequence) {
  std::vector<std::int64_t> ids;
  if (cycle->restored_at == 0) {
    ids = cycle->restored;
    cycle->restored_at = sequence;
  }
  for (auto kept = cycle->kept.rbegin(); kept != cycle->kept.rend() && !kept->ends; ++kept) {
    ids.insert(ids.end(), kept->ids.begin(), kept->ids.end());
  }
  SortDistinct(&ids);
  return ids;
}

}  // namespace ascpipe
