#include "bridge/cut.h"

#include <utility>

#include "bridge/status.h"
#include "core/atomics.h"
#include "core/bell.h"

namespace ascpipe {

CutWait::CutWait(std::shared_ptr<Pipeline> pipeline, StepEnd* step, Table* of, layout::CutKind kind,
                 std::int64_t argument, tensorflow::OpKernelContext* ctx, tensorflow::AsyncOpKernel::DoneCallback done)
    : AsyncWait(std::move(pipeline), step, ctx, EndsOp(ctx, std::move(done))),
      table_(*of),
      kind_(kind),
      argument_(argument) {
  table = of->number();
  table_name = of->name();
}

bool CutWait::Poll(CoreStatus* status) {
  Ranks* const ranks = pipeline().ranks();
  if (ranks != nullptr && ranks->rank() != 0) return true;  // rank 0 requests the cut
  if (asked_ == 0 && Begins(status)) return true;
  if (asked_ == 0) return false;
  waits_for = layout::kWaitCut;
  if (LoadAcquire(&table_.header()->cut_applied) < asked_) return false;  // SYNC cut-applied: load
  return ranks == nullptr || AllHaveChanged(status);
}

// Ends the request of a cancelled step on the other ranks.
void CutWait::Left() {
  Ranks* const ranks = pipeline().ranks();
  if (asking_ == nullptr || ending_ != nullptr) return;
  // If the table worker already has the request, it still changes the table, as the other ranks do.
  ranks->Abandon(number_, asked_ == 0, asking_.get());
}

// Returns true if the wait ends without a cut. `asked_` becomes nonzero if Begins sends the cut to the table worker.
bool CutWait::Begins(CoreStatus* status) {
  layout::Table* header = table_.header();
  Ranks* const ranks = pipeline().ranks();
  if (!step().MayCut()) {
    *status = Error(Code::kFailedPrecondition, "table '", table_name,
                    "' cannot be changed by a step that trains a "
                    "batch: the order of the two would be undefined. Nothing was changed. Run it in a "
                    "run of its own, before or after the training step");
    return true;
  }
  waits_for = layout::kWaitSave;
  if (kind_ != layout::kCutThreshold && table_.IsBeingSaved()) return false;
  waits_for = layout::kWaitLease;
  if (!pipeline().lease().TryExclusive(step().id())) return false;
  waits_for = layout::kWaitCut;
  const std::int64_t applied = LoadAcquire(&header->cut_applied);  // SYNC cut-applied: load
  if (LoadAcquire(&header->cut_asked) != applied) return false;  // another cut is pending, possibly of a cancelled step
  int index = -1;
  const Stream* stream = pipeline().TrainingStream(table_.number(), &index);
  if (stream == nullptr) return true;
  if (CutIsNeedless(table_, *stream, index, kind_))
    return true;  // the other ranks also return here, because they have trained the same batches
  step().Cuts();
  if (ranks != nullptr) {
    waits_for = layout::kWaitRanks;
    if (asking_ == nullptr) {
      number_ = ranks->NewAsk();
      asking_ = ranks->Ask(number_, AskPhase::kChange,
                           Text("{\"what\": \"cut\", \"table\": ", table_.number(),
                                ", \"kind\": ", static_cast<int>(kind_), ", \"argument\": ", argument_, "}"));
    }
    if (!asking_->IsOver(status)) return false;
    if (!status->ok()) return true;
  }
  header->cut_kind = kind_;
  header->cut_argument = argument_;
  asked_ = applied + 1;
  Exchange(&header->cut_asked, asked_);  // SYNC cut-asked: store
  Ring(pipeline().TableWorkerBell(*stream, index));
  return false;
}

// Returns true when all other ranks have answered. Sets *status to an error if a rank has not executed the cut.
bool CutWait::AllHaveChanged(CoreStatus* status) {
  Ranks* const ranks = pipeline().ranks();
  waits_for = layout::kWaitRanks;
  if (ending_ == nullptr) ending_ = ranks->Ask(number_, AskPhase::kEnd, "{\"what\": \"cut\", \"done\": true}");
  if (!ending_->IsOver(status)) return false;
  std::vector<std::string> answers;
  if (!ranks->TakeAnswers(number_, &answers) && status->ok()) {
    *status = Error(Code::kInternal, "table '", table_name, "': a rank has not said whether it was changed");
  }
  ranks->DropAnswers(number_);
  for (std::size_t rank = 1; rank < answers.size(); ++rank) {
    if (answers[rank].empty() || answers[rank][0] == '+') continue;
    *status =
        Error(Code::kFailedPrecondition, "table '", table_name, "' was changed on rank 0 and not on rank ", rank, ": ",
              answers[rank].substr(1), ". No rank continues training. Restart all ranks from the last checkpoint");
  }
  return true;
}

bool CutIsNeedless(const Table& table, const Stream& stream, int index, layout::CutKind kind) {
  const layout::Table* header = table.header();
  if (kind == layout::kCutThreshold) return LoadAcquire(&header->access_threshold) < 0;  // all keys are admitted
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
