#include "bridge/cut.h"

#include <utility>

#include "bridge/status.h"
#include "core/atomics.h"
#include "core/bell.h"

namespace ascpipe {

CutWait::CutWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, Table* of, layout::CutKind kind,
                 std::int64_t argument, tensorflow::OpKernelContext* ctx,
                 tensorflow::AsyncOpKernel::DoneCallback done)
    : AsyncWait(std::move(pipeline), step, ctx, EndsOp(ctx, std::move(done))),
      table_(*of),
      kind_(kind),
      argument_(argument) {
  table = of->number();
  table_name = of->name();
}

bool CutWait::Poll(CoreStatus* status) {
  layout::Table* header = table_.header();
  if (asked_ != 0) return LoadAcquire(&header->cut_applied) >= asked_;  // SYNC cut-applied: load
  if (!step().MayCut()) {
    *status = Error(Code::kFailedPrecondition, "table '", table_name, "' cannot be changed by a step that trains a "
                    "batch: which of the two comes first would be left to chance. Nothing was changed. Run it in a "
                    "run of its own, before or after the training step");
    return true;
  }
  waits_for = layout::kWaitLease;
  if (!pipeline().lease().TryExclusive(step().id())) return false;
  waits_for = layout::kWaitCut;
  const std::int64_t applied = LoadAcquire(&header->cut_applied);  // SYNC cut-applied: load
  if (LoadAcquire(&header->cut_asked) != applied) return false;  // another cut is under way, maybe of a cancelled step
  int index = -1;
  const Stream* stream = pipeline().TrainingStream(table_.number(), &index);
  if (stream == nullptr || IsNeedless(*stream, index)) return true;
  step().Cuts();
  header->cut_kind = kind_;
  header->cut_argument = argument_;
  asked_ = applied + 1;
  Exchange(&header->cut_asked, asked_);  // SYNC cut-asked: store
  Ring(pipeline().TableWorkerBell(*stream, index));
  return false;
}

bool CutWait::IsNeedless(const Stream& stream, int index) const {
  const layout::Table* header = table_.header();
  if (kind_ == layout::kCutThreshold) return LoadAcquire(&header->access_threshold) < 0;  // it admits every key
  return LoadAcquire(&stream.ring().table(index)->finished) == 0 && LoadAcquire(&header->retired) == 0 &&
         LoadAcquire(&header->rows) == 0;  // nothing was ever trained
}

tensorflow::Status PrepareCut(tensorflow::OpKernelContext* ctx, const char* op, int number,
                              std::shared_ptr<Pipeline>* pipeline, Table** table, StepEnd** step) {
  TF_RETURN_IF_ERROR(ToStatus(CurrentPipeline(pipeline)));
  *table = (*pipeline)->table(number);
  if (*table == nullptr) {
    return Refuse(Code::kFailedPrecondition, op, ": table ", number, " is not of this pipeline");
  }
  TF_RETURN_IF_ERROR((*table)->Drive(ctx));
  return StepEnd::Of(ctx, *pipeline, step);
}

}  // namespace ascpipe
