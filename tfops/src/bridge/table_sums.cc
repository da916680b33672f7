#include "bridge/table_sums.h"

#include <algorithm>
#include <utility>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/dealt_gradients.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;
using tensorflow::TensorShape;

namespace {

constexpr std::int64_t kLeastThreads = 4;       // with fewer threads, DealtGradients is not faster
constexpr std::int64_t kLeastShared = 4096;     // minimum number of positions of a table that threads share
constexpr std::int64_t kMostParts = 8;          // maximum number of parts of a table; each part reads all positions
constexpr std::int64_t kFloatsOfBlock = 16384;  // about 10 us of adding; waking a thread for less takes longer

bool Clips(const BagGradient& lookup) { return lookup.has_bags && lookup.bags.max_norm != 0; }

}  // namespace

Status TableSums::Begin(const std::string& op, const Tensor& slots, const Tensor* rows, std::int64_t dim, bool partial,
                        std::vector<BagGradient> lookups) {
  if (slots.dims() != 1) {
    return Refuse(Code::kInvalidArgument, op, ": slots have shape ", slots.shape().DebugString(),
                  ", expected a vector");
  }
  slots_ = slots.flat<std::int32_t>().data();
  count_ = slots.NumElements();
  dim_ = dim;
  rows_ = rows;
  lookups_ = std::move(lookups);
  bad_ = std::vector<FirstBad>(lookups_.size());
  for (const BagGradient& lookup : lookups_) {
    positions_ += lookup.n;
    has_bags_ = has_bags_ || lookup.has_bags;
    plain_.push_back({lookup.restore, lookup.grads, lookup.n, lookup.stride, lookup.side_by_side});
  }
  if (partial) KeepOwnSlots();
  valid_ = std::count_if(slots_, slots_ + count_, IsTrained);
  return OkStatus();
}

// Keeps only the slots that a lookup uses. Invalid restore indexes are reported later, when the gradients are added.
void TableSums::KeepOwnSlots() {
  own_slots_.assign(static_cast<std::size_t>(count_), -1);
  for (const BagGradient& lookup : lookups_) {
    for (std::int64_t i = 0; i < lookup.n; ++i) {
      const std::int64_t index = lookup.restore[i];
      if (index >= 0 && index < count_) own_slots_[static_cast<std::size_t>(index)] = slots_[index];
    }
  }
  slots_ = own_slots_.data();
}

Status TableSums::Allocate(OpKernelContext* ctx, int values, int indices) {
  Tensor* made;
  TF_RETURN_IF_ERROR(ctx->allocate_output(values, TensorShape({valid_, dim_}), &made));
  sums_ = made->flat<float>().data();
  TF_RETURN_IF_ERROR(ctx->allocate_output(indices, TensorShape({valid_}), &made));
  indices_ = made->flat<std::int32_t>().data();
  if (!has_bags_) return OkStatus();  // the thread that adds the gradients also numbers the slots
  Number();
  if (rows_ != nullptr) TF_RETURN_IF_ERROR(RequireRows(ctx->op_kernel().type_string()));
  if (!std::any_of(lookups_.begin(), lookups_.end(), Clips)) return OkStatus();
  return ctx->allocate_temp(tensorflow::DT_FLOAT, TensorShape({valid_, dim_}), &clipped_);
}

void TableSums::Number() {
  places_.resize(static_cast<std::size_t>(count_));
  NumberValidSlots(slots_, count_, places_.data(), indices_);
}

// Returns an error if an index is not a valid row number.
Status TableSums::RequireRows(const std::string& op) const {
  const std::int64_t count = rows_->dims() == 2 && rows_->dim_size(1) == dim_ ? rows_->dim_size(0) : 0;
  for (std::int64_t i = 0; i < valid_; ++i) {
    if (indices_[i] < count) continue;
    return Refuse(Code::kInvalidArgument, op, ": slot ", indices_[i], " is not of rows of shape ",
                  rows_->shape().DebugString(), " with dim ", dim_);
  }
  return OkStatus();
}

void TableSums::Add(const SumPart& part) { has_bags_ ? AddBags(part) : AddLookups(); }

void TableSums::AddLookups() {
  Number();
  std::fill(sums_, sums_ + valid_ * dim_, 0.0f);
  for (std::size_t i = 0; i < plain_.size(); ++i) {
    bad_[i].Note(AddGradients(places_.data(), count_, plain_[i], dim_, sums_));
    if (!bad_[i].none()) return;
  }
}

void TableSums::AddBags(const SumPart& part) {
  ZeroPart(part, valid_, dim_, sums_);
  for (std::size_t i = 0; i < lookups_.size(); ++i) {
    const bool clips = Clips(lookups_[i]);
    float* const into = clips ? clipped_.flat<float>().data() : sums_;
    if (clips) ZeroPart(part, valid_, dim_, into);
    bad_[i].Note(AddBagGradients(places_.data(), count_, lookups_[i], dim_, part, into));
    if (!clips) continue;
    AddClipped(rows_->flat<float>().data(), indices_, lookups_[i].bags, into, valid_, dim_, part, sums_);
  }
}

void TableSums::AddTogether(OpKernelContext* ctx) {
  Number();
  DealtGradients dealt(places_.data(), count_, plain_, dim_);
  ShareBlocks(ctx, dealt.chunks(), 1, [&dealt](std::int64_t begin, std::int64_t end) { dealt.Deal(begin, end); });
  const BadIndex bad = dealt.bad();
  if (bad.position >= 0) return bad_[static_cast<std::size_t>(bad.lookup)].Note(bad.position);
  ShareBlocks(ctx, DealtGradients::kHands, 1,
              [&](std::int64_t begin, std::int64_t end) { dealt.Add(begin, end, valid_, sums_); });
}

Status TableSums::Outcome(const std::string& op) const {
  for (std::size_t i = 0; i < lookups_.size(); ++i) {
    if (bad_[i].none()) continue;
    return Refuse(Code::kInvalidArgument, op, ": restore index ", lookups_[i].restore[bad_[i].at()], " at position ",
                  bad_[i].at(), " of lookup ", i, " is outside [0, ", count_, ") and not -1");
  }
  return OkStatus();
}

Status SumTables(OpKernelContext* ctx, std::vector<TableSums>* tables) {
  const int count = static_cast<int>(tables->size());
  std::int64_t positions = 0;
  for (int i = 0; i < count; ++i) {
    TableSums& sums = (*tables)[static_cast<std::size_t>(i)];
    TF_RETURN_IF_ERROR(sums.Allocate(ctx, i, count + i));
    positions += sums.positions();
  }
  const std::int64_t threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
  // If there are more threads than tables, all threads together add the gradients of each large table without bags.
  const auto is_dealt = [=](const TableSums& sums) {
    return !sums.has_bags() && threads >= std::max<std::int64_t>(kLeastThreads, count + 1) &&
           sums.positions() >= kLeastShared;
  };
  // The number of parts of a table with bags is proportional to the table's share of the work.
  std::vector<std::pair<TableSums*, SumPart>> parts;
  std::int64_t floats = 1;
  for (TableSums& sums : *tables) {
    if (is_dealt(sums)) continue;
    floats += sums.positions() * sums.dim();
    const bool shared = sums.has_bags() && sums.positions() >= kLeastShared;
    const std::int64_t share = shared ? 2 * threads * sums.positions() / positions : 1;
    const std::int64_t number_of_parts = std::max<std::int64_t>(1, std::min({share, threads, kMostParts}));
    for (std::int64_t number = 0; number < number_of_parts; ++number) {
      parts.push_back({&sums, {number, number_of_parts}});
    }
  }
  const std::int64_t count_of_parts = static_cast<std::int64_t>(parts.size());
  const std::int64_t block = std::max<std::int64_t>(1, count_of_parts * kFloatsOfBlock / floats);
  ShareBlocks(ctx, count_of_parts, block, [&parts](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& part = parts[static_cast<std::size_t>(i)];
      part.first->Add(part.second);
    }
  });
  for (TableSums& sums : *tables) {
    if (is_dealt(sums)) sums.AddTogether(ctx);
    TF_RETURN_IF_ERROR(sums.Outcome(ctx->op_kernel().type_string()));
  }
  return OkStatus();
}

}  // namespace ascpipe
