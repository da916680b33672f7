#include "bridge/lookup_source.h"

#include "bridge/default_row.h"
#include "bridge/step_end.h"
#include "core/layout.h"

namespace ascpipe {

using tensorflow::Status;

Status LookupSource::Read(tensorflow::OpKernelContext* ctx, int rows, int slots, int table) {
  const std::string& op = ctx->op_kernel().type_string();
  // As in TensorFlow's Gather, the lookup does not lock the variable's mutex. The plan op moved the rows before it
  // returned the slots, which are an input of the lookup. Updates run later, because they need the gradients.
  rows_ = tensorflow::IsRefType(ctx->input_dtype(rows)) ? ctx->mutable_input(rows, false) : ctx->input(rows);
  const tensorflow::Tensor& numbers = ctx->input(slots);
  if (rows_.dims() != 2) {
    return Refuse(Code::kInvalidArgument, op, ": rows have shape ", rows_.shape().DebugString(),
                  ", expected [device rows, dim]");
  }
  if (numbers.dims() != 1) {
    return Refuse(Code::kInvalidArgument, op, ": slots have shape ", numbers.shape().DebugString(),
                  ", expected a vector");
  }
  default_row_.assign(static_cast<std::size_t>(rows_.dim_size(1)), 0.0f);
  source_ = {rows_.flat<float>().data(),          rows_.dim_size(0),     rows_.dim_size(1),
             numbers.flat<std::int32_t>().data(), numbers.NumElements(), default_row_.data()};
  std::int64_t bad = FirstBadSlot(source_);
  if (bad >= 0 && source_.slots[bad] <= layout::kSlotHome && table >= 0) {
    TF_RETURN_IF_ERROR(RowsInstead(ctx, table, &fixed_));
    TF_RETURN_IF_ERROR(fixed_ != nullptr ? UseFixed(op) : FindHomes(ctx, table));
    bad = FirstBadSlot(source_, bad);
  }
  if (bad < 0) return OkStatus();
  const std::int32_t slot = source_.slots[bad];
  if (slot <= layout::kSlotHome && table >= 0) {
    return Refuse(Code::kInvalidArgument, op, ": slot ", slot, " at index ", bad, " is home row ",
                  layout::kSlotHome - static_cast<std::int64_t>(slot), ", table ", table, " has ", source_.home_count);
  }
  return Refuse(Code::kInvalidArgument, op, ": slot ", slot, " at index ", bad, " is outside [0, ", source_.row_count,
                ") and not -1");
}

Status LookupSource::ReadDefault(tensorflow::OpKernelContext* ctx, int place) {
  TF_RETURN_IF_ERROR(ReadDefaultRow(ctx, place, source_.dim, &default_row_));
  source_.default_row = default_row_.data();
  return OkStatus();
}

Status LookupSource::BadRestore(const std::string& op, const std::int32_t* restore, std::int64_t bad,
                                int lookup) const {
  return Refuse(Code::kInvalidArgument, op, ": restore index ", restore[bad], " at position ", bad, " of lookup ",
                lookup, " is outside [0, ", source_.slot_count, ") and not -1");
}

Status LookupSource::UseFixed(const std::string& op) {
  if (fixed_->dim() != source_.dim) {
    return Refuse(Code::kInvalidArgument, op, ": rows of ", source_.dim,
                  " floats cannot be read together with a checkpoint that has ", fixed_->dim());
  }
  source_.homes = fixed_->embeddings();
  source_.home_count = fixed_->count();
  source_.home_floats = fixed_->dim();
  return OkStatus();
}

Status LookupSource::FindHomes(tensorflow::OpKernelContext* ctx, int table) {
  const std::string& op = ctx->op_kernel().type_string();
  TF_RETURN_IF_ERROR(ToStatus(CurrentPipeline(&pipeline_)));
  const Table* found = pipeline_->table(table);
  if (found == nullptr) {
    return Refuse(Code::kFailedPrecondition, op, ": table ", table, " is not of this pipeline");
  }
  if (found->device().dim() != source_.dim) {
    return Refuse(Code::kInvalidArgument, op, ": rows of ", source_.dim,
                  " floats cannot be read together with home rows of table '", found->name(), "', which has dim ",
                  found->device().dim());
  }
  if (found->is_on_disk()) {
    StepEnd* step;
    TF_RETURN_IF_ERROR(StepEnd::Of(ctx, pipeline_, &step));
    copied_ = step->RowsOf(source_.slots);
    step->Unref();
    if (copied_ == nullptr) return OkStatus();  // no slot is the code of a copied row
    source_.homes = copied_->rows();
    source_.home_count = copied_->count();
    source_.home_floats = source_.dim;
    return OkStatus();
  }
  const HomeRows home = found->home();
  source_.homes = home.data;
  source_.home_count = home.ready;
  source_.home_floats = home.row_floats;
  return OkStatus();
}

}  // namespace ascpipe
