// Immutable keys and embeddings of a table in a checkpoint.
#ifndef ASCPIPE_CORE_FIXED_ROWS_H_
#define ASCPIPE_CORE_FIXED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/core_status.h"

namespace ascpipe {

class FixedRows {
 public:
  // Allocates `count` rows of `dim` floats. The caller must fill the rows before it calls Index.
  static CoreStatus Make(const std::string& table, std::int64_t count, std::int64_t dim,
                         std::shared_ptr<FixedRows>* rows);
  // Returns the number of bytes that Make allocates.
  static std::int64_t Bytes(std::int64_t count, std::int64_t dim);

  std::int64_t count() const { return count_; }
  std::int64_t dim() const { return dim_; }
  std::int64_t* keys() { return keys_.get(); }       // int64[count]
  float* embeddings() { return embeddings_.get(); }  // float[count, dim], row i is the row of key i
  const float* embeddings() const { return embeddings_.get(); }

  // Builds the index. Call Index once, after all rows are filled in. The rows are immutable afterwards. Returns an
  // error if a key occurs twice.
  CoreStatus Index();
  // Sets slots[i] to the code of the row of keys[i] (kSlotHome - row), or to kSlotNone if the key has no row.
  void Resolve(const std::int64_t* keys, std::int64_t count, std::int32_t* slots) const;

 private:
  FixedRows(std::string table, std::int64_t count, std::int64_t dim);
  std::size_t FirstPlace(std::int64_t key) const;

  const std::string table_;
  const std::int64_t count_;
  const std::int64_t dim_;
  const std::size_t mask_;  // capacity of the hash table, a power of two, minus one
  const std::unique_ptr<std::int64_t[]> keys_;
  const std::unique_ptr<float[]> embeddings_;
  const std::unique_ptr<std::int32_t[]> places_;  // hash table with open addressing; an element is a row, or -1
};

}  // namespace ascpipe

#endif  // ASCPIPE_CORE_FIXED_ROWS_H_
