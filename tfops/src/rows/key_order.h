// Sorts keys, and copies rows in a given order. The functions allocate no memory, and cannot fail.
#ifndef ASCPIPE_ROWS_KEY_ORDER_H_
#define ASCPIPE_ROWS_KEY_ORDER_H_

#include <cstdint>

namespace ascpipe {

// A key and its index. The ordinal is an unsigned number; ordinals have the same order as their keys.
struct PlacedKey {
  std::uint64_t ordinal;
  std::uint32_t place;
};

// Sorts keys. `scratch` must have as many elements as `keys`.
void SortKeys(std::int64_t* keys, std::int64_t count, std::int64_t* scratch);

// Writes the indices of the keys in ascending order of the keys. Equal keys keep their order. `scratch` must have 2 *
// count elements, and `count` must be below 2^32.
void OrderKeys(const std::int64_t* keys, std::int64_t count, PlacedKey* scratch, std::uint32_t* order);

// Writes the range number of each key, which is the number of bounds that are not above the key. Adds the number of
// keys of each range to counts[bound_count + 1]. The bounds are sorted.
template <typename Range>
void FindRanges(const std::int64_t* keys, std::int64_t count, const std::int64_t* bounds, std::int64_t bound_count,
                Range* ranges, std::int64_t* counts);

// Writes the indices of rows in the order of their ranges. Rows of the same range keep their order. On return,
// counts[range_count] contains the number of rows of each range. `scratch` has range_count elements.
template <typename Range>
void GroupRows(const Range* ranges, std::int64_t count, std::int64_t range_count, std::int64_t* counts,
               std::int64_t* scratch, std::uint32_t* order);

// Copies the rows with the indices `order` to `out`. Rows have row_bytes bytes.
void GatherRows(const char* rows, std::int64_t row_bytes, const std::uint32_t* order, std::int64_t count, char* out);

}  // namespace ascpipe

#endif  // ASCPIPE_ROWS_KEY_ORDER_H_
