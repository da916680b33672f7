#include "core/cycle_ids.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/stream.h"

namespace ascpipe {

void CycleIds::SetSteps(int table, std::int64_t steps) {
  Cycle& cycle = CycleOf(table);
  if (cycle.steps == steps) return;
  cycle.steps = steps;
  cycle.ids.clear();
}

void CycleIds::SetIds(int table, std::vector<std::int64_t> ids) {
  std::sort(ids.begin(), ids.end());
  CycleOf(table).ids = std::move(ids);
}

CycleIds::Cycle& CycleIds::CycleOf(int table) {
  const std::size_t place = static_cast<std::size_t>(table);
  if (cycles_.size() <= place) cycles_.resize(place + 1);
  return cycles_[place];
}

std::vector<bool> CycleIds::Pass(std::int64_t sequence, Batch* batch) {
  std::vector<bool> ends(cycles_.size());
  for (std::size_t table = 0; table < cycles_.size(); ++table) {
    Cycle& cycle = cycles_[table];
    if (cycle.steps == 1) continue;
    ends[table] = (before_ + sequence) % cycle.steps == 0;
    if (!ends[table]) {
      Keep(*batch, static_cast<int>(table), &cycle.ids);
    } else if (!cycle.ids.empty()) {
      batch->Append(static_cast<int>(table), std::move(cycle.ids));
      cycle.ids.clear();
    }
  }
  return ends;
}

void CycleIds::Keep(const Batch& batch, int table, std::vector<std::int64_t>* ids) {
  const auto middle = static_cast<std::ptrdiff_t>(ids->size());
  for (const FeatureIds& feature : batch.features) {
    if (feature.table != table) continue;
    if (feature.is_int32) {
      const std::int32_t* const from = static_cast<const std::int32_t*>(feature.data);
      ids->insert(ids->end(), from, from + feature.count);
    } else {
      const std::int64_t* const from = static_cast<const std::int64_t*>(feature.data);
      ids->insert(ids->end(), from, from + feature.count);
    }
  }
  std::sort(ids->begin() + middle, ids->end());
  std::inplace_merge(ids->begin(), ids->begin() + middle, ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace ascpipe
