#include "core/home_rows.h"

#include <algorithm>
#include <sstream>

#include "core/row_copy.h"
#include "core/ticket.h"

namespace ascpipe {

namespace {

constexpr int kTableShift = 56;
constexpr int kStepShift = 40;
constexpr std::int64_t kRowMask = (std::int64_t{1} << kStepShift) - 1;
constexpr int kStepMask = 0xffff;
constexpr std::int64_t kGroupRows = 16;  // one thread writes adjacent rows, which may share cache lines

std::int64_t RowOf(std::int64_t handle) { return handle & kRowMask; }

}  // namespace

std::int64_t Handle::bits() const {
  const std::uint64_t named = static_cast<std::uint64_t>(table + 1) << kTableShift |
                              static_cast<std::uint64_t>(step) << kStepShift | static_cast<std::uint64_t>(row);
  return static_cast<std::int64_t>(named);
}

Handle Handle::Of(std::int64_t bits) {
  const std::uint64_t named = static_cast<std::uint64_t>(bits);
  return {static_cast<int>(named >> kTableShift) - 1, static_cast<int>(named >> kStepShift) & kStepMask, RowOf(bits)};
}

int StepOf(std::int64_t ticket) { return static_cast<int>(1 + SequenceOf(ticket) % kStepMask); }

std::string Describe(std::int64_t handle, std::int64_t index) {
  const Handle named = Handle::Of(handle);
  std::ostringstream text;
  text << "handle 0x" << std::hex << static_cast<std::uint64_t>(handle) << std::dec << " at index " << index
       << " (table " << named.table << ", step " << named.step << ", row " << named.row << ")";
  return text.str();
}

CoreStatus CheckHandles(const std::int64_t* handles, std::int64_t count, const HandledTable& table) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (handles[i] == 0) continue;
    const Handle handle = Handle::Of(handles[i]);
    if (handle.table != table.number) {
      return Error(Code::kInvalidArgument, Describe(handles[i], i), " is of another table than '", table.name,
                   "', whose rows the handles before it name. Nothing was read or written; use handles of one table "
                   "in one op");
    }
    if (handle.step != table.step || table.step == 0) {
      return Error(Code::kFailedPrecondition, Describe(handles[i], i), " was not made by the step that trains table '",
                   table.name, "' now (", table.step,
                   "): handles are valid in the step that made them. Nothing was "
                   "read or written; make and use handles in one run call");
    }
    if (handle.row >= table.home.ready) {
      return Error(Code::kInvalidArgument, Describe(handles[i], i), " names no row: table '", table.name, "' has ",
                   table.home.ready, " rows with memory. Nothing was read or written; use handles unchanged");
    }
  }
  return CoreStatus();
}

std::int64_t NameRows(const std::int32_t* codes, std::int64_t count, const HandledTable& table, std::int64_t* handles,
                      std::int32_t* places) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t home = HomeOf(codes[i]);
    if (home < -1 || home >= table.home.ready) return i;
    handles[i] = home < 0 ? 0 : Handle{table.number, table.step, home}.bits();
    places[i] = home < 0 ? layout::kSlotNone : static_cast<std::int32_t>(i) + (codes[i] >= 0 ? layout::kSlotFrozen : 0);
  }
  return -1;
}

void ReadRows(const HomeRows& home, const std::int64_t* handles, std::int64_t begin, std::int64_t end,
              std::int64_t width, float* out) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end && handles[i + kRowsAhead] != 0) {
      PrefetchRead(home.data + RowOf(handles[i + kRowsAhead]) * home.row_floats, width);
    }
    if (handles[i] == 0) {
      std::fill(out + i * width, out + (i + 1) * width, 0.0f);
    } else {
      CopyFloats(out + i * width, home.data + RowOf(handles[i]) * home.row_floats, width);
    }
  }
}

void RowWrites::Write(std::int64_t part, std::int64_t parts) const {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = RowOf(handles[i]);
    if (handles[i] == 0 || row / kGroupRows % parts != part) continue;
    float* to = home.data + row * home.row_floats;
    const float* from = rows + i * width;
    if (add) {
      for (std::int64_t column = 0; column < width; ++column) to[column] += from[column];
    } else {
      CopyFloats(to, from, width);
    }
  }
}

}  // namespace ascpipe
