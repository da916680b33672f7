#include "bridge/plan_moves.h"

#include <utility>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "core/ticket.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

PlanMoves::PlanMoves(const RingView& ring, int index, Table* table, std::vector<StateRows> state, PlanOutputs outputs)
    : ring_(ring), index_(index), table_(table), state_(std::move(state)), outputs_(std::move(outputs)) {
  moved_.name = &table->name();
  moved_.initial = &table->initial();
  moved_.state = &state_;
}

bool PlanMoves::ImagesFit(const RingView& ring, int index, std::int64_t frame, Table* table) {
  const std::shared_ptr<RowLog> log = table->row_log();
  return log == nullptr || log->HasRoom(ring.part(frame, index)->id_count);
}

Status PlanMoves::CarryOut(OpKernelContext* ctx, std::int64_t frame, std::int64_t ticket) {
  // The status was read before the claim; the claimed record must still be a plan.
  const std::int64_t found = ring_.part(frame, index_)->status;
  if (found != layout::kPlanOk) {
    return Refuse(kE301, "table '", table_->name(), "': the claimed plan of ticket ", SequenceOf(ticket),
                  " has status ", found, ". The record is damaged; restart the program");
  }
  moved_.device_rows = table_->is_expansion() ? table_->home().ready : table_->sizes().device_rows;
  if (!table_->is_expansion()) moved_.home = table_->home();
  // The array of the plan that tells where rows are: an expansion table has rows at home only.
  const auto places = table_->is_expansion() ? &layout::Part::homes : &layout::Part::slots;
  std::int64_t bad = -1;
  if (!CopyPlan(ring_, frame, index_, {places, layout::kSlotNone, moved_.device_rows}, outputs_, &bad)) {
    return Refuse(kE301, "table '", table_->name(), "': slot ", bad, " of the plan of ticket ", SequenceOf(ticket),
                  " is outside the table. The record is damaged; restart the program");
  }
  return Move(ctx, frame);
}

// Examines every index before it moves the first row, and moves every row out before the first one in.
Status PlanMoves::Move(OpKernelContext* ctx, std::int64_t frame) {
  TF_RETURN_IF_ERROR(ToStatus(moves_.Read(ring_, frame, index_, moved_, outputs_.slots)));
  std::int64_t floats = 0;
  for (const StateRows& rows : state_) floats += rows.width;
  const std::int64_t block = BlockRows(floats);
  KeepImages(ctx, frame, block);
  ShareBlocks(ctx, moves_.outs(), block, [this](std::int64_t begin, std::int64_t end) { moves_.Out(begin, end); });
  ShareBlocks(ctx, moves_.ins(), block, [this](std::int64_t begin, std::int64_t end) { moves_.In(begin, end); });
  if (table_->is_expansion()) EncodeHomes(outputs_.slots);
  const layout::Part* part = ring_.part(frame, index_);
  FreezePadding(ring_.array<std::int64_t>(frame, part->unique), table_->padding_keys(), outputs_.slots);
  return Status::OK();
}

// Keeps images of the home rows that this step will change, for a background save.
void PlanMoves::KeepImages(OpKernelContext* ctx, std::int64_t frame, std::int64_t block) {
  const std::shared_ptr<RowLog> log = table_->row_log();
  if (log == nullptr) return;
  const bool in_place = table_->is_expansion();
  const layout::Part* const part = ring_.part(frame, index_);
  const std::int32_t* const homes = in_place ? outputs_.slots.data : moves_.out_homes();
  const std::int32_t* const numbers =
      table_->is_on_disk() ? ring_.array<std::int32_t>(frame, in_place ? part->entries : part->out_entries) : homes;
  ShareBlocks(ctx, in_place ? outputs_.slots.count : moves_.outs(), block,
              [&log, numbers, homes](std::int64_t begin, std::int64_t end) { log->Keep(numbers, homes, begin, end); });
}

}  // namespace ascpipe
