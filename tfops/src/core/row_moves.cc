#include "core/row_moves.h"

#include <algorithm>
#include <limits>

#include "core/atomics.h"
#include "core/row_copy.h"

namespace ascpipe {

namespace {

constexpr std::int64_t kMostInt32 = std::numeric_limits<std::int32_t>::max();
static_assert(kLineFloats * sizeof(float) == layout::kCacheLine, "a line of rows is a cache line");

void PrefetchState(const std::vector<StateRows>& state, std::int64_t slot) {
  for (const StateRows& rows : state) PrefetchRow(rows.row(slot), rows.width);
}

bool IsIn(std::int64_t value, std::int64_t limit) { return value >= 0 && value < limit; }

// Returns the index of the first value outside [lowest, limit), or `count` if there is none.
std::int64_t FirstOutside(const std::int32_t* values, std::int64_t count, std::int64_t lowest, std::int64_t limit) {
  // The compiler can vectorize this loop, because it has no branches.
  const std::uint32_t from = static_cast<std::uint32_t>(lowest);
  const std::uint32_t range = static_cast<std::uint32_t>(std::min(limit, kMostInt32 + 1) - lowest);
  std::uint32_t outside = 0;
  for (std::int64_t i = 0; i < count; ++i) outside |= static_cast<std::uint32_t>(values[i]) - from >= range;
  if (outside == 0) return count;
  return std::find_if(values, values + count, [=](std::int32_t value) { return value < lowest || value >= limit; }) -
         values;
}

// Returns true if every state (embedding or optimizer slot) in every home row begins and ends at a boundary of a cache
// line.
bool IsWholeLines(const HomeRows& home, const std::vector<StateRows>& state) {
  return reinterpret_cast<std::uintptr_t>(home.data) % layout::kCacheLine == 0 &&
         std::all_of(state.begin(), state.end(), [](const StateRows& rows) { return rows.width % kLineFloats == 0; });
}

}  // namespace

CoreStatus CopyPlan(const std::string& table, const PartView& part, const PlanColumn& column,
                    const PlanOutputs& outputs) {
  const PlanOutputs::Array& slots = outputs.slots;
  const std::int32_t* const values = part.array<std::int32_t>(column.values);
  std::copy(values, values + slots.count, slots.data);
  const std::int64_t outside = FirstOutside(slots.data, slots.count, column.lowest, column.limit);
  if (outside < slots.count) {
    return Damaged(table, part.ticket(), "gives key ", outside, " of ", slots.count, " the place ", slots.data[outside],
                   ", which is outside the table (", column.lowest, " to ", column.limit - 1, ")");
  }
  return CopyRestore(table, part, slots.count, outputs);
}

CoreStatus CopyRestore(const std::string& table, const PartView& part, std::int64_t keys, const PlanOutputs& outputs) {
  const std::int32_t* restore = part.array<std::int32_t>(&layout::Part::restore);
  for (const PlanOutputs::Array& out : outputs.restores) {
    std::copy(restore, restore + out.count, out.data);
    const std::int64_t outside = FirstOutside(out.data, out.count, 0, keys);
    if (outside < out.count) {
      return Damaged(table, part.ticket(), "gives id ", outside, " of ", out.count, " the restore index ",
                     out.data[outside], " of ", keys, " distinct ids");
    }
    restore += out.count;
  }
  return CoreStatus();
}

void EncodeHomes(const PlanOutputs::Array& homes) {
  static_assert(layout::kSlotHome - -1 == layout::kSlotNone, "no home row becomes no slot");
  for (std::int64_t i = 0; i < homes.count; ++i) homes.data[i] = layout::kSlotHome - homes.data[i];
}

void FreezeAll(const PlanOutputs::Array& slots) {
  for (std::int64_t i = 0; i < slots.count; ++i) {
    if (slots.data[i] != layout::kSlotNone) slots.data[i] += layout::kSlotFrozen;
  }
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

CoreStatus RowMoves::Read(const PartView& part, const MovedTable& table, const PlanOutputs::Array& slots) {
  table_ = &table;
  keys_ = part.array<std::int64_t>(&layout::Part::unique);
  fresh_ = LoadAcquire(&part.shared().fresh_count);
  const std::int64_t loads = LoadAcquire(&part.shared().load_count), outs = LoadAcquire(&part.shared().out_count);
  const std::int64_t homes = table.home.ready;
  if (!IsIn(fresh_, slots.count + 1) || !IsIn(loads, slots.count + 1) || fresh_ + loads > slots.count ||
      !IsIn(outs, part.ids() + 1)) {
    return Damaged(*table.name, part.ticket(), "moves ", fresh_, " new rows and ", loads, " rows from the host for ",
                   slots.count, " distinct ids, and ", outs, " rows to the host for ", part.ids(), " ids");
  }
  if (table.home.data == nullptr && (loads != 0 || outs != 0)) {
    return Damaged(*table.name, part.ticket(), "moves ", loads, " rows from and ", outs,
                   " rows to the host, but rows of this table stay where they are");
  }
  const std::int32_t* const out_slots = part.array<std::int32_t>(&layout::Part::out_slots);
  const std::int32_t* const out_homes = part.array<std::int32_t>(&layout::Part::out_homes);
  out_slots_.assign(out_slots, out_slots + outs);
  out_homes_.assign(out_homes, out_homes + outs);
  const std::int64_t outside = std::min(FirstOutside(out_slots_.data(), outs, 0, table.device_rows),
                                        FirstOutside(out_homes_.data(), outs, 0, homes));
  if (outside < outs) {
    return Damaged(*table.name, part.ticket(), "moves slot ", out_slots_[static_cast<std::size_t>(outside)], " of ",
                   table.device_rows, " to home row ", out_homes_[static_cast<std::size_t>(outside)], " of ", homes);
  }
  return ReadArrivals(part, fresh_ + loads, slots);
}

CoreStatus RowMoves::ReadArrivals(const PartView& part, std::int64_t count, const PlanOutputs::Array& slots) {
  const std::int32_t* const move_in = part.array<std::int32_t>(&layout::Part::move_in);
  const std::int32_t* const homes = part.array<std::int32_t>(&layout::Part::homes);
  in_.clear();
  in_.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t index = LoadAcquire(move_in + i);
    if (!IsIn(index, slots.count) || slots.data[index] < 0) {
      return Damaged(*table_->name, part.ticket(), "gives a row to index ", index, " of ", slots.count,
                     ", which has no slot or home row");
    }
    const std::int32_t home = LoadAcquire(homes + index);
    if (table_->home.data != nullptr && !IsIn(home, table_->home.ready)) {
      return Damaged(*table_->name, part.ticket(), "gives a row to index ", index, " with home row ", home, " of ",
                     table_->home.ready);
    }
    in_.push_back({index, slots.data[index], home});
  }
  return CoreStatus();
}

void RowMoves::Out(std::int64_t begin, std::int64_t end) const {
  // The copies may bypass the cache, because swapped-out rows are not needed soon. A batch that needs a swapped-out row
  // is among the last batches of the look-ahead window, or after the window.
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
  const std::int32_t* const slots = out_slots_.data();
  const std::int32_t* const homes = out_homes_.data();
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      if (kFetchesHome) PrefetchRow(home.data + homes[i + kRowsAhead] * home.row_floats, home.row_floats);
      PrefetchState(*table_->state, slots[i + kRowsAhead]);
    }
    float* to = home.data + homes[i] * home.row_floats;
    for (const StateRows& rows : *table_->state) {
      Copy(to, rows.row(slots[i]), rows.width);
      to += rows.width;
    }
  }
}

void RowMoves::In(std::int64_t begin, std::int64_t end) const {
  const HomeRows& home = table_->home;
  const Arrival* const in = in_.data();
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      const Arrival& ahead = in[i + kRowsAhead];
      if (i + kRowsAhead >= fresh_) PrefetchRead(home.data + ahead.home * home.row_floats, home.row_floats);
      PrefetchState(*table_->state, ahead.slot);
    }
    if (i < fresh_) {
      Begin(in[i]);
    } else {
      Load(in[i]);
    }
  }
}

void RowMoves::Back(std::int64_t begin, std::int64_t end) const {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::size_t at = static_cast<std::size_t>(i);
    const float* from = table_->home.data + out_homes_[at] * table_->home.row_floats;
    for (const StateRows& rows : *table_->state) {
      CopyFloats(rows.row(out_slots_[at]), from, rows.width);
      from += rows.width;
    }
  }
}

void RowMoves::Begin(const Arrival& in) const {
  const std::vector<StateRows>& state = *table_->state;
  table_->initial->Fill(keys_[in.index], state[0].width, state[0].row(in.slot));
  for (std::size_t other = 1; other < state.size(); ++other) {
    float* row = state[other].row(in.slot);
    std::fill(row, row + state[other].width, state[other].initial);
  }
}

void RowMoves::Load(const Arrival& in) const {
  const float* from = table_->home.data + in.home * table_->home.row_floats;
  for (const StateRows& rows : *table_->state) {
    CopyFloats(rows.row(in.slot), from, rows.width);
    from += rows.width;
  }
}

}  // namespace ascpipe
