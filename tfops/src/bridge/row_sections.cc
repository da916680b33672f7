#include "bridge/row_sections.h"

#include <algorithm>
#include <cstring>

#include "core/error_codes.gen.h"

namespace ascpipe {

namespace {

const std::int64_t kZeros = 0;  // padding of an array

std::int64_t Missing(std::int64_t bytes) { return -bytes & 7; }

}  // namespace

void RowSections::Add(const DealtRows& table, std::vector<std::vector<Piece>>* to) {
  for (std::size_t rank = 0; rank < to->size(); ++rank) {
    const std::int64_t begin = (*table.bounds)[rank];
    const std::int64_t count = (*table.bounds)[rank + 1] - begin;
    const std::uint8_t* const mask = table.present == nullptr ? nullptr : table.present + begin;
    const bool has_mask = mask != nullptr && std::find(mask, mask + count, 0) != mask + count;
    heads_.push_back({count, has_mask ? 1 : 0});
    std::vector<Piece>& pieces = (*to)[rank];
    pieces.push_back({&heads_.back(), sizeof(Head)});
    if (has_mask) {
      pieces.push_back({mask, count});
      if (Missing(count) != 0) pieces.push_back({&kZeros, Missing(count)});
    }
    const std::int64_t bytes = count * table.dim * static_cast<std::int64_t>(sizeof(float));
    pieces.push_back({table.rows + begin * table.dim, bytes});
    if (Missing(bytes) != 0) pieces.push_back({&kZeros, Missing(bytes)});
  }
}

CoreStatus RowReader::Next(int rank, std::int64_t count, std::int64_t dim, const std::uint8_t** rows,
                           const std::uint8_t** present) {
  RowSections::Head head = {-1, 0};
  if (left_ >= static_cast<std::int64_t>(sizeof(head))) std::memcpy(&head, at_, sizeof(head));
  const std::int64_t mask = head.has_mask != 0 ? count + Missing(count) : 0;
  const std::int64_t bytes = count * dim * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t all = static_cast<std::int64_t>(sizeof(head)) + mask + bytes + Missing(bytes);
  if (head.count != count || all > left_) {
    return Error(kE301, "rank ", rank, " sent ", head.count, " rows in ", left_, " bytes, expected ", count,
                 " rows of ", dim, " floats. The message is damaged; restart all ranks from the last checkpoint");
  }
  *present = mask != 0 ? at_ + sizeof(head) : nullptr;
  *rows = at_ + sizeof(head) + mask;
  at_ += all;
  left_ -= all;
  return CoreStatus();
}

}  // namespace ascpipe
