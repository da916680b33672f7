#include "rows/list_levels.h"

#include <algorithm>
#include <cstdint>

namespace ascpipe {
namespace {

constexpr int kMostShift = 28;  // of the header of a run, which has at most 32 bits

// Reads a number in the variable-length encoding. Returns false if the number is damaged.
bool ReadNumber(const std::uint8_t** place, const std::uint8_t* end, std::int64_t* number) {
  *number = 0;
  for (int shift = 0; shift <= kMostShift && *place < end; shift += 7) {
    const std::uint8_t byte = *(*place)++;
    *number |= static_cast<std::int64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

void BeginLists(std::int64_t count, std::int64_t batch_lists, ListBatches* batches) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (batches->lists == batch_lists) {
      batches->most = std::max(batches->most, batches->values);
      batches->lists = batches->values = 0;
    }
    ++batches->lists;
    ++batches->values;
  }
}

}  // namespace

bool CountLists(const std::uint8_t* levels, std::int64_t bytes, std::int64_t count, std::int64_t batch_lists,
                ListBatches* batches) {
  const std::uint8_t* place = levels;
  const std::uint8_t* const end = levels + bytes;
  while (count > 0) {
    std::int64_t header = 0;
    if (!ReadNumber(&place, end, &header) || place == end || header < 2) return false;
    const std::int64_t length = header >> 1;
    if ((header & 1) == 0) {  // a run of one level
      const std::int64_t used = std::min(length, count);
      if (*place++ == 0) {
        BeginLists(used, batch_lists, batches);
      } else {
        batches->values += used;
      }
      count -= used;
      continue;
    }
    for (std::int64_t group = 0; group < length && count > 0; ++group) {
      if (place == end) return false;
      const std::uint8_t bits = *place++;
      for (int bit = 0; bit < 8 && count > 0; ++bit, --count) {
        if ((bits >> bit & 1) == 0) {
          BeginLists(1, batch_lists, batches);
        } else {
          ++batches->values;
        }
      }
    }
  }
  batches->most = std::max(batches->most, batches->values);
  return true;
}

}  // namespace ascpipe
