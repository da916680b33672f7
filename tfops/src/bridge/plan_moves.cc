#include "bridge/plan_moves.h"

#include <utility>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/atomics.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

PlanMoves::PlanMoves(const PartView& part, Table* table, std::vector<StateRows> state, PlanOutputs outputs)
    : part_(part), table_(table), state_(std::move(state)), outputs_(std::move(outputs)) {
  moved_.name = &table->name();
  moved_.initial = &table->initial();
  moved_.state = &state_;
}

bool PlanMoves::ImagesFit(const PartView& part, Table* table) {
  const std::shared_ptr<RowLog> log = table->row_log();
  return log == nullptr || log->HasRoom(part.ids());
}

Status PlanMoves::CarryOut(OpKernelContext* ctx) {
  // The status is read again, because the worker may have replaced the record after the decision to claim.
  const std::int64_t found = LoadAcquire(&part_.shared().status);
  if (found != layout::kPlanOk) return ToStatus(Damaged(table_->name(), part_.ticket(), "has status ", found));
  moved_.device_rows = table_->is_expansion() ? table_->home().ready : table_->sizes().device_rows;
  if (!table_->is_expansion()) moved_.home = table_->home();
  // Array of row locations in the plan. An expansion table has only home rows.
  const auto places = table_->is_expansion() ? &layout::Part::homes : &layout::Part::slots;
  const PlanColumn column = {places, layout::kSlotNone, moved_.device_rows};
  TF_RETURN_IF_ERROR(ToStatus(CopyPlan(table_->name(), part_, column, outputs_)));
  return Move(ctx);
}

// Validates every index before moving the first row. Moves all swapped-out rows before moving rows into the slots.
Status PlanMoves::Move(OpKernelContext* ctx) {
  TF_RETURN_IF_ERROR(ToStatus(moves_.Read(part_, moved_, outputs_.slots)));
  std::int64_t floats = 0;
  for (const StateRows& rows : state_) floats += rows.width;
  const std::int64_t block = BlockRows(floats);
  KeepImages(ctx, block);
  ShareBlocks(ctx, moves_.outs(), block, [this](std::int64_t begin, std::int64_t end) { moves_.Out(begin, end); });
  ShareBlocks(ctx, moves_.ins(), block, [this](std::int64_t begin, std::int64_t end) { moves_.In(begin, end); });
  if (table_->is_expansion()) EncodeHomes(outputs_.slots);
  if (table_->is_frozen()) {
    FreezeAll(outputs_.slots);
  } else {
    FreezePadding(part_.array<std::int64_t>(&layout::Part::unique), table_->padding_keys(), outputs_.slots);
  }
  return OkStatus();
}

// Stores images of the home rows that this step will change, for a background save.
void PlanMoves::KeepImages(OpKernelContext* ctx, std::int64_t block) {
  const std::shared_ptr<RowLog> log = table_->row_log();
  if (log == nullptr) return;
  const bool in_place = table_->is_expansion();
  const std::int32_t* const homes = in_place ? outputs_.slots.data : moves_.out_homes();
  const std::int32_t* const numbers =
      table_->is_on_disk() ? part_.array<std::int32_t>(in_place ? &layout::Part::entries : &layout::Part::out_entries)
                           : homes;
  ShareBlocks(ctx, in_place ? outputs_.slots.count : moves_.outs(), block,
              [&log, numbers, homes](std::int64_t begin, std::int64_t end) { log->Keep(numbers, homes, begin, end); });
}

}  // namespace ascpipe
