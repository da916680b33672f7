#include "core/row_moves.h"

#include <algorithm>
#include <cstring>

#include "core/row_copy.h"

namespace ascpipe {

namespace {

void PrefetchState(const std::vector<StateRows>& state, std::int64_t slot) {
  for (const StateRows& rows : state) PrefetchRow(rows.row(slot), rows.width);
}

bool IsIn(std::int64_t value, std::int64_t limit) { return value >= 0 && value < limit; }

// What a record says that cannot be.
template <typename... Parts>
CoreStatus Damaged(const std::string& table, const Parts&... parts) {
  return Error(Code::kDataLoss, "E301: table '", table, "': the plan ", parts...,
               ". The record is damaged and no row was moved; restart the program");
}

}  // namespace

bool CopyPlan(const RingView& ring, std::int64_t frame, int table_index, const PlanColumn& column,
              const PlanOutputs& outputs, std::int64_t* bad) {
  const layout::Part* part = ring.part(frame, table_index);
  const std::int32_t* values = ring.array<std::int32_t>(frame, part->*column.values);
  for (std::int64_t i = 0; i < outputs.slots.count; ++i) {
    if (values[i] < column.lowest || values[i] >= column.limit) {
      *bad = i;
      return false;
    }
    outputs.slots.data[i] = values[i];
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
  for (std::int64_t i = 0; i < outs_; ++i) {
    if (!IsIn(out_slots_[i], table.device_rows) || !IsIn(out_homes_[i], homes)) {
      return Damaged(*table.name, "moves slot ", out_slots_[i], " of ", table.device_rows, " to home row ",
                     out_homes_[i], " of ", homes);
    }
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
  const HomeRows& home = table_->home;
  for (std::int64_t i = begin; i < end; ++i) {
    if (i + kRowsAhead < end) {
      PrefetchRow(home.data + out_homes_[i + kRowsAhead] * home.row_floats, home.row_floats);
      PrefetchState(*table_->state, out_slots_[i + kRowsAhead]);
    }
    float* to = home.data + out_homes_[i] * home.row_floats;
    for (const StateRows& rows : *table_->state) {
      CopyFloats(to, rows.row(out_slots_[i]), rows.width);
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
