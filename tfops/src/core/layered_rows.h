// One version of the rows of a served table: the rows of a file, and the updates that were applied to them.
#ifndef ASCPIPE_CORE_LAYERED_ROWS_H_
#define ASCPIPE_CORE_LAYERED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/row_table.h"

namespace ascpipe {

// The class is immutable. The layers are merged so that each layer has more than twice as many keys as the next newer
// layer. Therefore the layers need less than twice the memory of the distinct keys of all updates, and the number of
// layers is logarithmic in the number of keys.
class LayeredRows {
 public:
  LayeredRows() = default;
  explicit LayeredRows(std::shared_ptr<const RowTable> base) : tables_{std::move(base)} {}

  // Returns a new version of the rows with `update` applied. All rows must have the same length. Sets `*changed` to
  // false if there is not enough memory.
  LayeredRows With(std::shared_ptr<const RowTable> update, bool* changed) const;

  std::int64_t dim() const { return tables_.back()->dim(); }
  std::size_t layer_count() const { return tables_.size() - 1; }
  // Returns the number of keys in the layers.
  std::int64_t layer_keys() const;

  // Same as RowTable::LookUp.
  template <typename Key>
  void LookUp(const Key* keys, std::int64_t begin, std::int64_t end, const float* default_row, float* out,
              bool* found) const;

 private:
  std::vector<std::shared_ptr<const RowTable>> tables_;  // newest layer first, then the base
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_LAYERED_ROWS_H_
