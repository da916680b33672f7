#include "rows/key_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ascpipe {
namespace {

constexpr int kDigitBits = 8;
constexpr int kMostDigits = 64 / kDigitBits;
constexpr std::size_t kValues = std::size_t{1} << kDigitBits;  // number of values of a digit
constexpr std::uint64_t kSign = std::uint64_t{1} << 63;        // with this bit inverted, unsigned order is key order
constexpr std::int64_t kFew = 32;                              // up to this number of entries are sorted by comparisons
constexpr std::int64_t kAhead = 16;                            // prefetch distance in rows

std::uint64_t OrdinalOf(std::int64_t key) { return static_cast<std::uint64_t>(key) ^ kSign; }

std::uint64_t OrdinalOf(const PlacedKey& key) { return key.ordinal; }

// counts[v] is the number of entries with value v. Replaces counts[v] by the index that the first entry with value v
// has after sorting.
void BeginParts(std::int64_t* counts) {
  std::int64_t first = 0;
  for (std::size_t value = 0; value < kValues; ++value) {
    const std::int64_t count = counts[value];
    counts[value] = first;
    first += count;
  }
}

template <typename Entry>
void SortFew(Entry* entries, std::int64_t count) {
  for (std::int64_t i = 1; i < count; ++i) {
    const Entry entry = entries[i];
    std::int64_t place = i;
    for (; place > 0 && OrdinalOf(entries[place - 1]) > OrdinalOf(entry); --place) entries[place] = entries[place - 1];
    entries[place] = entry;
  }
}

// Sorts entries by their lowest `digits` digits, beginning with the lowest digit. The digits of an entry are the digits
// of its difference from `least`. Returns the array with the sorted entries, `entries` or `other`.
template <typename Entry>
Entry* SortByDigits(Entry* entries, Entry* other, std::int64_t count, std::uint64_t least, int digits) {
  if (count <= kFew) {
    SortFew(entries, count);
    return entries;
  }
  const auto digit_of = [least](const Entry& entry, int digit) {
    return static_cast<std::size_t>((OrdinalOf(entry) - least) >> (digit * kDigitBits)) & (kValues - 1);
  };
  std::int64_t counts[kMostDigits][kValues];
  std::fill(counts[0], counts[digits], 0);
  for (std::int64_t i = 0; i < count; ++i) {
    for (int digit = 0; digit < digits; ++digit) ++counts[digit][digit_of(entries[i], digit)];
  }
  for (int digit = 0; digit < digits; ++digit) {
    std::int64_t* const next = counts[digit];
    if (next[digit_of(entries[0], digit)] == count) continue;  // the digit is the same for all entries
    BeginParts(next);
    for (std::int64_t i = 0; i < count; ++i) other[next[digit_of(entries[i], digit)]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

// Sorts entries. The entries are first divided by the highest bits in which they differ, so that each part stays in the
// CPU cache while it is sorted. The number of operations does not depend on the keys.
template <typename Entry>
void Sort(Entry* entries, Entry* other, std::int64_t count) {
  if (count == 0) return;
  std::uint64_t least = OrdinalOf(entries[0]), most = least;
  for (std::int64_t i = 1; i < count; ++i) {
    least = std::min(least, OrdinalOf(entries[i]));
    most = std::max(most, OrdinalOf(entries[i]));
  }
  int low_bits = 0;
  while ((most - least) >> low_bits >= kValues) ++low_bits;
  const auto part_of = [least, low_bits](const Entry& entry) {
    return static_cast<std::size_t>((OrdinalOf(entry) - least) >> low_bits);
  };
  std::int64_t ends[kValues] = {};
  for (std::int64_t i = 0; i < count; ++i) ++ends[part_of(entries[i])];
  BeginParts(ends);
  for (std::int64_t i = 0; i < count; ++i) other[ends[part_of(entries[i])]++] = entries[i];
  const int digits = (low_bits + kDigitBits - 1) / kDigitBits;
  std::int64_t first = 0;
  for (const std::int64_t end : ends) {
    Entry* const part = other + first;
    const Entry* const sorted = SortByDigits(part, entries + first, end - first, least, digits);
    if (sorted == part) std::copy(sorted, sorted + (end - first), entries + first);
    first = end;
  }
}

// The compiler replaces a copy of a constant size by a few instructions.
template <std::size_t row_bytes>
void GatherRowsOf(const char* rows, const std::uint32_t* order, std::int64_t count, char* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(rows + order[i + kAhead] * row_bytes);
    std::memcpy(out + static_cast<std::size_t>(i) * row_bytes, rows + order[i] * row_bytes, row_bytes);
  }
}

}  // namespace

void SortKeys(std::int64_t* keys, std::int64_t count, std::int64_t* scratch) { Sort(keys, scratch, count); }

void OrderKeys(const std::int64_t* keys, std::int64_t count, PlacedKey* scratch, std::uint32_t* order) {
  for (std::int64_t i = 0; i < count; ++i) scratch[i] = {OrdinalOf(keys[i]), static_cast<std::uint32_t>(i)};
  Sort(scratch, scratch + count, count);
  for (std::int64_t i = 0; i < count; ++i) order[i] = scratch[i].place;
}

template <typename Range>
void FindRanges(const std::int64_t* keys, std::int64_t count, const std::int64_t* bounds, std::int64_t bound_count,
                Range* ranges, std::int64_t* counts) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t key = keys[i];
    const std::int64_t* base = bounds;
    for (std::int64_t left = bound_count; left > 0;) {  // this loop has no branch that depends on the key
      const std::int64_t half = (left + 1) / 2;
      base += half & -static_cast<std::int64_t>(base[half - 1] <= key);
      left -= half;
    }
    const std::int64_t range = base - bounds;
    ranges[i] = static_cast<Range>(range);
    ++counts[range];
  }
}

template <typename Range>
void GroupRows(const Range* ranges, std::int64_t count, std::int64_t range_count, std::int64_t* counts,
               std::int64_t* scratch, std::uint32_t* order) {
  std::fill(counts, counts + range_count, 0);
  for (std::int64_t i = 0; i < count; ++i) ++counts[ranges[i]];
  std::int64_t first = 0;
  for (std::int64_t range = 0; range < range_count; ++range) {
    scratch[range] = first;
    first += counts[range];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t place = scratch[ranges[i]]++;
    order[place] = static_cast<std::uint32_t>(i);
  }
}

void GatherRows(const char* rows, std::int64_t row_bytes, const std::uint32_t* order, std::int64_t count, char* out) {
  switch (row_bytes) {
    case 8:
      return GatherRowsOf<8>(rows, order, count, out);
    case 16:
      return GatherRowsOf<16>(rows, order, count, out);
    case 32:
      return GatherRowsOf<32>(rows, order, count, out);
    case 64:
      return GatherRowsOf<64>(rows, order, count, out);
    case 128:
      return GatherRowsOf<128>(rows, order, count, out);
    default:
      break;
  }
  const std::size_t bytes = static_cast<std::size_t>(row_bytes);
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kAhead < count) __builtin_prefetch(rows + order[i + kAhead] * bytes);
    std::memcpy(out + static_cast<std::size_t>(i) * bytes, rows + order[i] * bytes, bytes);
  }
}

template void FindRanges(const std::int64_t*, std::int64_t, const std::int64_t*, std::int64_t, std::uint16_t*,
                         std::int64_t*);
template void FindRanges(const std::int64_t*, std::int64_t, const std::int64_t*, std::int64_t, std::uint32_t*,
                         std::int64_t*);
template void GroupRows(const std::uint16_t*, std::int64_t, std::int64_t, std::int64_t*, std::int64_t*, std::uint32_t*);
template void GroupRows(const std::uint32_t*, std::int64_t, std::int64_t, std::int64_t*, std::int64_t*, std::uint32_t*);

}  // namespace ascpipe
