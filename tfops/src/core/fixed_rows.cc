#include "core/fixed_rows.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/error_codes.gen.h"
#include "core/layout.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;
constexpr std::int64_t kKeysAhead = 16;  // prefetch distance in keys

// Returns the capacity of the hash table. The load factor is at most 1/2, which keeps probe sequences short.
std::size_t Places(std::int64_t count) {
  std::size_t places = 2;
  while (places < 2 * static_cast<std::size_t>(count)) places *= 2;
  return places;
}

}  // namespace

CoreStatus FixedRows::Make(const std::string& table, std::int64_t count, std::int64_t dim,
                           std::shared_ptr<FixedRows>* rows) {
  if (count < 0 || count > kMaxRows || dim < 1 || dim > kMaxRows) {
    return Error(Code::kInvalidArgument, "table '", table, "': ", count, " rows of ", dim,
                 " floats cannot be read beside the live table (rows: 0 to ", kMaxRows, ")");
  }
  std::shared_ptr<FixedRows> made(new FixedRows(table, count, dim));
  if (made->keys_ == nullptr || made->embeddings_ == nullptr || made->places_ == nullptr) {
    return Error(Code::kResourceExhausted, "table '", table, "': there is not enough memory for ", Bytes(count, dim),
                 " bytes of keys and rows. Nothing was changed. Give the machine (or the container) more memory, or "
                 "evaluate on a machine without training");
  }
  *rows = std::move(made);
  return CoreStatus();
}

FixedRows::FixedRows(std::string table, std::int64_t count, std::int64_t dim)
    : table_(std::move(table)),
      count_(count),
      dim_(dim),
      mask_(Places(count) - 1),
      keys_(new(std::nothrow) std::int64_t[static_cast<std::size_t>(count)]),
      embeddings_(new(std::nothrow) float[static_cast<std::size_t>(count) * static_cast<std::size_t>(dim)]),
      places_(new(std::nothrow) std::int32_t[mask_ + 1]) {}

std::int64_t FixedRows::Bytes(std::int64_t count, std::int64_t dim) {
  return count * (8 + 4 * dim) + 4 * static_cast<std::int64_t>(Places(count));
}

// Returns the first index of the hash table to probe. Uses the upper bits of a product, because the upper bits depend
// on all bits of the key.
std::size_t FixedRows::FirstPlace(std::int64_t key) const {
  std::uint64_t mixed = static_cast<std::uint64_t>(key) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 32;
  return static_cast<std::size_t>(mixed * 0xd6e8feb86659fd93u >> 32) & mask_;
}

CoreStatus FixedRows::Index() {
  std::fill_n(places_.get(), mask_ + 1, -1);
  for (std::int64_t row = 0; row < count_; ++row) {
    if (row + kKeysAhead < count_) __builtin_prefetch(&places_[FirstPlace(keys_[row + kKeysAhead])], 1);
    std::size_t place = FirstPlace(keys_[row]);
    for (; places_[place] >= 0; place = (place + 1) & mask_) {
      if (keys_[places_[place]] == keys_[row]) {
        return Error(kE301, "table '", table_, "': key ", keys_[row],
                     " occurs twice. Nothing was changed; use another checkpoint");
      }
    }
    places_[place] = static_cast<std::int32_t>(row);
  }
  return CoreStatus();
}

void FixedRows::Resolve(const std::int64_t* keys, std::int64_t count, std::int32_t* slots) const {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kKeysAhead < count) __builtin_prefetch(&places_[FirstPlace(keys[i + kKeysAhead])]);
    std::size_t place = FirstPlace(keys[i]);
    while (places_[place] >= 0 && keys_[places_[place]] != keys[i]) place = (place + 1) & mask_;
    slots[i] = places_[place] < 0 ? layout::kSlotNone : layout::kSlotHome - places_[place];
  }
}

}  // namespace ascpipe
