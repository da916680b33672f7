#include "core/row_moves.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error_codes.gen.h"
#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();
static_assert(kLineFloats * sizeof(float) == layout::kCacheLine, "a line of rows is a cache line");

void PrefetchState(const std::vector<StateRows>& state, std::int64_t slot) {
  for (const StateRows& rows : state) PrefetchRow(rows.row(slot), rows.width);
}

bool IsIn(std::int64_t value, std::int64_t limit) { return value >= 0 && value < limit; }

// Index of the first of `count` values that is not in [lowest, limit), or `count`.
std::int64_t FirstOutside(const std::int32_t* values, std::int64_t count, std::int64_t lowest, std::int64_t limit) {
  // First all of them, by one comparison each and no branch, which the compiler can vectorise.
  const std::uint32_t from = static_cast<std::uint32_t>(lowest);
  const std::uint32_t range = static_cast<std::uint32_t>(std::min(limit, kMostInt32 + 1) - lowest);
  std::uint32_t outside = 0;
  for (std::int64_t i = 0; i < count; ++i) outside |= static_cast<std::uint32_t>(values[i]) - from >= range;
  if (outside == 0) return count;
  return std::find_if(values, values + count,
                      [=](std::int32_t value) { return value < lowest || value >= limit; }) - values;
}

// Whether all home rows, and all parts of them, begin and end with a cache line.
bool IsWholeLines(const HomeRows& home, const std::vector<StateRows>& state) {
  return reinterpret_cast<std::uintptr_t>(home.data) % layout::kCacheLine == 0 &&
         std::all_of(state.begin(), state.end(),
                     [](const StateRows& rows) { return rows.width % kLineFloats == 0; });
}

// The error of a damaged record.
template <typename... Parts>
CoreStatus Damaged(const std::string& table, const Parts&... parts) {
  return Error(kE301, "table '", table, "': the plan ", parts...,
               ". The record is damaged and no row was moved; restart the program");
}

}  // namespace

bool CopyPlan(const RingView& ring, std::int64_t frame, int table_index, const PlanColumn& column,
              const PlanOutputs& outputs, std::int64_t* bad) {
  const layout::Part* part = ring.part(frame, table_index);
  const std::int32_t* values = ring.array<std::int32_t>(frame, part->*column.values);
  std::copy(values, values + outputs.slots.count, outputs.slots.data);
  const std::int64_t outside = FirstOutside(outputs.slots.data, outputs.slots.count, column.lowest, column.limit);
  if (outside < outputs.slots.count) {
    *bad = outside;
    return false;
  }
  CopyRestore(ring, frame, table_index, outputs);
  return true;
}

void CopyRestore(const RingView& ring, std::int64_t frame, int table_index, const PlanOutputs& outputs) {
  const std::int32_t* restore = ring.array<std::int32_t>(frame, ring.part(frame, table_index)->restore);
  for (const PlanOutputs::Array& out : outputs.restores) {
    if (out.count > 0) std::memcpy(out.data, restore, static_cast<std::size_t>(out.count) * sizeof(std::int32_t));
    restore += out.count;
  }
}

void EncodeHomes(const PlanOutputs::Array& homes) {
  static_assert(layout::kSlotHome - -1 == layout::kSlotNone, "no home row becomes no slot");
  for (std::int64_t i = 0; i < homes.count; ++i) homes.data[i] = layout::kSlotHome - homes.data[i];
}

void FreezePadding(const std::int64_t* keys, const std::vector<std::int64_t>& padding,
                   const PlanOutputs::Array& slots) {
  if (padding.empty()) return;
  const std::int64_t first = padding.front(), last = padding.back();
  for (std::int64_t i = 0; i < slots.count; ++i) {
    if (keys[i] < first || keys[i] > last || slots.data[i] == layout::kSlotNone) continue;
    if (std::binary_search(padding.begin(), padding.end(), keys[i])) slots.data[i] += layout::kSlotFrozen;
  }
}

CoreStatus RowMoves::Read(const RingView& ring, std::int64_t frame, int table_index, const MovedTable& table,
                          const PlanOutputs::Array& slots) {
  const layout::Part* part = ring.part(frame, table_index);
  table_ = &table;
  keys_ = ring.array<std::int64_t>(frame, part->unique);
  slots_ = slots.data;
  homes_ = ring.array<std::int32_t>(frame, part->homes);
  move_in_ = ring.array<std::int32_t>(frame, part->move_in);
  out_slots_ = ring.array<std::int32_t>(frame, part->out_slots);
  out_homes_ = ring.array<std::int32_t>(frame, part->out_homes);
  fresh_ = part->fresh_count;
  loads_ = part->load_count;
  outs_ = part->out_count;
  const std::int64_t homes = table.home.ready;
  if (!IsIn(fresh_, slots.count + 1) || !IsIn(loads_, slots.count + 1) || fresh_ + loads_ > slots.count ||
      !IsIn(outs_, part->id_count + 1)) {
    return Damaged(*table.name, "moves ", fresh_, " new rows and ", loads_, " rows from the host for ", slots.count,
                   " distinct ids, and ", outs_, " rows to the host for ", part->id_count, " ids");
  }
  if (table.home.data == nullptr && (loads_ != 0 || outs_ != 0)) {
    return Damaged(*table.name, "moves ", loads_, " rows from and ", outs_,
                   " rows to the host, but rows of this table stay where they are");
  }
  const std::int64_t outside = std::min(FirstOutside(out_slots_, outs_, 0, table.device_rows),
                                        FirstOutside(out_homes_, outs_, 0, homes));
  if (outside < outs_) {
    return Damaged(*table.name, "moves slot ", out_slots_[outside], " of ", table.device_rows, " to home row ",
                   out_homes_[outside], " of ", homes);
  }
  for (std::int64_t i = 0; i < fresh_ + loads_; ++i) {
    const std::int32_t index = move_in_[i];
    if (!IsIn(index, slots.count) || slots_[index] < 0) {
      return Damaged(*table.name, "gives a row to index ", index, " of ", slots.count,
                     ", which has no slot or home row");
    }
    if (table.home.data != nullptr && !IsIn(homes_[index], homes)) {
      return Damaged(*table.name, "gives a row to index ", index, " with home row ", homes_[index], " of ", homes);
    }
  }
  return CoreStatus();
}

void RowMoves::Out(std::int64_t begin, std::int64_t end) const {
  // A row that goes home is one that no batch in the window needs, or the one that is needed last.
  if (kCopiesPastTheCache && IsWholeLines(table_->home, *table_->state)) {
    OutBy<CopyPastTheCache, false>(begin, end);
    PastTheCache();
  } else {
    OutBy<CopyFloats, true>(begin, end);
  }
}

template <void (*Copy)(float*, const float*, std::int64_t), bool kFetchesHome>
void RowMoves::OutBy(std::int64_t begin, std::int64_t end) const {
  const HomeRows& home = table_->home;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      if (kFetchesHome) PrefetchRow(home.data + out_homes_[i + kRowsAhead] * home.row_floats, home.row_floats);
      PrefetchState(*table_->state, out_slots_[i + kRowsAhead]);
    }
    float* to = home.data + out_homes_[i] * home.row_floats;
    for (const StateRows& rows : *table_->state) {
      Copy(to, rows.row(out_slots_[i]), rows.width);
      to += rows.width;
    }
  }
}

void RowMoves::In(std::int64_t begin, std::int64_t end) const {
  const HomeRows& home = table_->home;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      const std::int32_t ahead = move_in_[i + kRowsAhead];
      if (i + kRowsAhead >= fresh_) PrefetchRead(home.data + homes_[ahead] * home.row_floats, home.row_floats);
      PrefetchState(*table_->state, slots_[ahead]);
    }
    if (i < fresh_) {
      Begin(move_in_[i]);
    } else {
      Load(move_in_[i]);
    }
  }
}

void RowMoves::Back(std::int64_t begin, std::int64_t end) const {
  for (std::int64_t i = begin; i < end; ++i) {
    const float* from = table_->home.data + out_homes_[i] * table_->home.row_floats;
    for (const StateRows& rows : *table_->state) {
      CopyFloats(rows.row(out_slots_[i]), from, rows.width);
      from += rows.width;
    }
  }
}

void RowMoves::Begin(std::int32_t index) const {
  const std::vector<StateRows>& state = *table_->state;
  const std::int64_t slot = slots_[index];
  table_->initial->Fill(keys_[index], state[0].width, state[0].row(slot));
  for (std::size_t other = 1; other < state.size(); ++other) {
    float* row = state[other].row(slot);
    std::fill(row, row + state[other].width, state[other].initial);
  }
}

void RowMoves::Load(std::int32_t index) const {
  const float* from = table_->home.data + homes_[index] * table_->home.row_floats;
  for (const StateRows& rows : *table_->state) {
    CopyFloats(rows.row(slots_[index]), from, rows.width);
    from += rows.width;
  }
}

}  // namespace ascpipe
