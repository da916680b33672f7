// C interface to sort keys, and to count the lists of Parquet columns. Python uses the interface through ctypes
// (ascpipe/checkpoint/key_order.py, ascpipe/rows/parquet_lists.py) and allocates all arrays.
#include <cstdint>

#include "rows/key_order.h"
#include "rows/list_levels.h"

#define ASC_EXPORT extern "C" __attribute__((visibility("default")))

ASC_EXPORT void asc_rows_sort_keys(std::int64_t* keys, std::int64_t count, std::int64_t* scratch) {
  ascpipe::SortKeys(keys, count, scratch);
}

// The size of `scratch` must be 2 * count * asc_rows_placed_bytes() bytes.
ASC_EXPORT void asc_rows_order_keys(const std::int64_t* keys, std::int64_t count, void* scratch, std::uint32_t* order) {
  ascpipe::OrderKeys(keys, count, static_cast<ascpipe::PlacedKey*>(scratch), order);
}

ASC_EXPORT std::int64_t asc_rows_placed_bytes() { return sizeof(ascpipe::PlacedKey); }

ASC_EXPORT void asc_rows_find_ranges_16(const std::int64_t* keys, std::int64_t count, const std::int64_t* bounds,
                                        std::int64_t bound_count, std::uint16_t* ranges, std::int64_t* counts) {
  ascpipe::FindRanges(keys, count, bounds, bound_count, ranges, counts);
}

ASC_EXPORT void asc_rows_find_ranges_32(const std::int64_t* keys, std::int64_t count, const std::int64_t* bounds,
                                        std::int64_t bound_count, std::uint32_t* ranges, std::int64_t* counts) {
  ascpipe::FindRanges(keys, count, bounds, bound_count, ranges, counts);
}

ASC_EXPORT void asc_rows_group_16(const std::uint16_t* ranges, std::int64_t count, std::int64_t range_count,
                                  std::int64_t* counts, std::int64_t* scratch, std::uint32_t* order) {
  ascpipe::GroupRows(ranges, count, range_count, counts, scratch, order);
}

ASC_EXPORT void asc_rows_group_32(const std::uint32_t* ranges, std::int64_t count, std::int64_t range_count,
                                  std::int64_t* counts, std::int64_t* scratch, std::uint32_t* order) {
  ascpipe::GroupRows(ranges, count, range_count, counts, scratch, order);
}

ASC_EXPORT void asc_rows_gather(const char* rows, std::int64_t row_bytes, const std::uint32_t* order,
                                std::int64_t count, char* out) {
  ascpipe::GatherRows(rows, row_bytes, order, count, out);
}

// `batches` is a ListBatches. Returns 0 if the levels are damaged.
ASC_EXPORT int asc_rows_count_lists(const std::uint8_t* levels, std::int64_t bytes, std::int64_t count,
                                    std::int64_t batch_lists, std::int64_t* batches) {
  ascpipe::ListBatches counted{batches[0], batches[1], batches[2]};
  const bool is_valid = ascpipe::CountLists(levels, bytes, count, batch_lists, &counted);
  batches[0] = counted.lists;
  batches[1] = counted.values;
  batches[2] = counted.most;
  return is_valid ? 1 : 0;
}
