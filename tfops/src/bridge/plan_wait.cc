#include "bridge/plan_wait.h"

#include "bridge/restores.h"
#include "bridge/send_limit.h"
#include "bridge/status.h"
#include "core/atomics.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

bool PlanWait::MayClaim(int stream) {
  waits_for = layout::kWaitStep;
  return pipeline().ranks()->peers().MayClaim(stream);
}

bool PlanWait::TryShare() {
  waits_for = layout::kWaitLease;
  return pipeline().lease().TryShare(step().id());
}

bool PlanWait::TryExclusive() {
  waits_for = layout::kWaitLease;
  return pipeline().lease().TryExclusive(step().id());
}

ClaimVerdict::Kind PlanWait::Follow(const ClaimVerdict& verdict, CoreStatus* status) {
  *status = verdict.error;
  waits_for = verdict.waits_for;
  return verdict.kind;
}

void PlanWait::EndRun(const Status& status) {
  pipeline().waiter().Fail(CoreStatus(static_cast<Code>(status.code()), MessageOf(status)));
}

void PlanWait::Proceed() {
  Status status;
  policy_->Proceed(this, &status) ? End(status) : Again();
}

ClaimWords WordsOf(const RingView& ring, int index, const Ticket& ticket, const Table& table) {
  ClaimWords words;
  words.table = table.name();
  words.device_rows = table.sizes().device_rows;
  words.home_rows = table.sizes().home_rows;
  words.disk_rows = table.most_disk_rows();
  ReadClaimWords(ring, index, ticket, &words);
  words.awaits_rows = table.AwaitsRows(words.state);
  return words;
}

ClaimWords PlanBatch::ReadWords(PlanWait* wait) {
  const ClaimWords words = WordsOf(ring(), index(), *request_.ticket.get(), *table());
  if (words.state < 0) return words;
  frame_ = words.state;
  wait->NoteIds(part().ids());
  return words;
}

Status PlanBatch::Allocate(OpKernelContext* ctx, PlanOutputs* outputs) const {
  const PartView part = this->part();
  const std::int64_t keys = LoadAcquire(&part.shared().unique_count);
  if (part.features() != request_.features || keys < 0 || keys > part.ids()) {
    return Refuse(kE301, "table '", table()->name(), "': the frame of ticket ", SequenceOf(request_.ticket->number()),
                  " has ", part.features(), " features and ", keys, " distinct ids of ", part.ids(),
                  ". The record is damaged; restart the program");
  }
  const SendLimit limit = {request_.send_count, request_.features};
  TF_RETURN_IF_ERROR(limit.Check(table()->name(), keys));
  Tensor* out;
  TF_RETURN_IF_ERROR(ctx->allocate_output(request_.output, TensorShape({keys}), &out));
  outputs->slots = {out->flat<tensorflow::int32>().data(), out->NumElements()};
  return AllocateRestores(ctx, part, request_.restore, outputs);
}

namespace {

// Creates the wait of a plan op. Error messages of the wait contain the name of the table and the ticket.
std::shared_ptr<PlanWait> WaitOf(std::unique_ptr<PlanPolicy> (*policy)(PlanRequest), PlanRequest request,
                                 std::shared_ptr<Pipeline> pipeline, StepEnd* step, OpKernelContext* ctx, Ended ended) {
  const Table& table = *request.table;
  const std::int64_t ticket = request.ticket->number();
  const auto wait =
      std::make_shared<PlanWait>(std::move(pipeline), step, ctx, std::move(ended), policy(std::move(request)));
  wait->table = table.number();
  wait->table_name = table.name();
  wait->ticket = ticket;
  return wait;
}

}  // namespace

std::shared_ptr<PlanWait> MakePlanWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request,
                                       OpKernelContext* ctx, Ended ended) {
  const bool trains = request.stream->training(), is_fixed = request.rows != nullptr;
  return WaitOf(trains     ? ClaimsPlan
                : is_fixed ? ReadsFixedRows
                           : ReadsPlan,
                std::move(request), std::move(pipeline), step, ctx, std::move(ended));
}

void BeginTurnWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, PlanRequest request, OpKernelContext* ctx,
                   tensorflow::AsyncOpKernel::DoneCallback done) {
  WaitOf(AwaitsTurn, std::move(request), std::move(pipeline), step, ctx, EndsOp(ctx, std::move(done)))->Begin();
}

}  // namespace ascpipe
