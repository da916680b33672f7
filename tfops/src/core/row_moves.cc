#include "core/row_moves.h"

#include <cstring>

namespace ascpipe {

bool CopyPlan(const RingView& ring, std::int64_t frame, int table_index, std::int64_t device_rows,
              const PlanOutputs& outputs, std::int64_t* bad) {
  const layout::Part* part = ring.part(frame, table_index);
  const std::int32_t* slots = ring.array<std::int32_t>(frame, part->slots);
  for (std::int64_t i = 0; i < outputs.slots.count; ++i) {
    if (slots[i] < -1 || slots[i] >= device_rows) {
      *bad = i;
      return false;
    }
    outputs.slots.data[i] = slots[i];
  }
  const std::int32_t* restore = ring.array<std::int32_t>(frame, part->restore);
  for (const PlanOutputs::Array& out : outputs.restores) {
    if (out.count > 0) std::memcpy(out.data, restore, static_cast<std::size_t>(out.count) * sizeof(std::int32_t));
    restore += out.count;
  }
  return true;
}

CoreStatus MoveRows(const RingView& ring, std::int64_t frame, int table_index, const std::string& table,
                    const InitialRows& initial, const std::int32_t* slots, const std::vector<StateRows>& state) {
  const layout::Part* part = ring.part(frame, table_index);
  if (part->load_count != 0 || part->out_count != 0 || part->fresh_count < 0 ||
      part->fresh_count > part->unique_count) {
    return Error(Code::kInternal, "table '", table, "': the plan moves ", part->fresh_count, " new rows of ",
                 part->unique_count, ", ", part->load_count, " from and ", part->out_count,
                 " to the host, which this table does not have");
  }
  const std::int64_t* unique = ring.array<std::int64_t>(frame, part->unique);
  const std::int32_t* move_in = ring.array<std::int32_t>(frame, part->move_in);
  for (std::int64_t i = 0; i < part->fresh_count; ++i) {
    const std::int32_t index = move_in[i];
    if (index < 0 || index >= part->unique_count || slots[index] < 0) {
      return Error(Code::kDataLoss, "E301: table '", table, "': the plan gives a new row to index ", index, " of ",
                   part->unique_count, ", which has none. The record is damaged; restore from the last checkpoint");
    }
    const std::int64_t slot = slots[index];
    initial.Fill(unique[index], state[0].width, state[0].data + slot * state[0].width);
    for (std::size_t other = 1; other < state.size(); ++other) {
      float* row = state[other].data + slot * state[other].width;
      for (std::int64_t column = 0; column < state[other].width; ++column) row[column] = state[other].initial;
    }
  }
  return CoreStatus();
}

}  // namespace ascpipe
