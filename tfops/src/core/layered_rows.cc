#include "core/layered_rows.h"

#include <utility>

namespace ascpipe {

namespace {

constexpr std::size_t kMaxTables = 64;  // the base and 63 layers, each at least twice as large as the next newer one

}  // namespace

LayeredRows LayeredRows::With(std::shared_ptr<const RowTable> update, bool* changed) const {
  *changed = true;
  if (update->key_count() == 0) return *this;
  std::size_t merged = 0;  // layers that are replaced
  while (merged < layer_count() && tables_[merged]->key_count() <= 2 * update->key_count()) {
    const bool is_last = merged + 1 == layer_count();
    update = RowTable::Merge(*tables_[merged], *update, is_last ? tables_.back().get() : nullptr);
    ++merged;
    if (update == nullptr) {
      *changed = false;
      return *this;
    }
  }
  LayeredRows rows;
  rows.tables_.push_back(std::move(update));
  rows.tables_.insert(rows.tables_.end(), tables_.begin() + static_cast<std::ptrdiff_t>(merged), tables_.end());
  return rows;
}

std::int64_t LayeredRows::layer_keys() const {
  std::int64_t keys = 0;
  for (std::size_t layer = 0; layer < layer_count(); ++layer) keys += tables_[layer]->key_count();
  return keys;
}

template <typename Key>
void LayeredRows::LookUp(const Key* keys, std::int64_t begin, std::int64_t end, const float* default_row, float* out,
                         bool* found) const {
  const RowTable* tables[kMaxTables];
  for (std::size_t table = 0; table < tables_.size(); ++table) tables[table] = tables_[table].get();
  RowTable::LookUp({tables, tables_.size()}, keys, begin, end, default_row, out, found);
}

template void LayeredRows::LookUp(const std::int32_t*, std::int64_t, std::int64_t, const float*, float*, bool*) const;
template void LayeredRows::LookUp(const std::int64_t*, std::int64_t, std::int64_t, const float*, float*, bool*) const;

}  // namespace ascpipe
