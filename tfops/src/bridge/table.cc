#include "bridge/table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bridge/session_mark.h"
#include "bridge/status.h"
#include "core/atomics.h"
#include "core/error_codes.gen.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;
using tensorflow::Tensor;

namespace {

std::vector<std::int64_t> Distinct(std::vector<std::int64_t> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

}  // namespace

Table::Table(int number, std::string name, const TableSizes& sizes, const InitialRows& initial,
             std::vector<std::int64_t> padding_keys, std::unique_ptr<Segment> segment,
             std::shared_ptr<DeviceTable> device)
    : number_(number),
      name_(std::move(name)),
      sizes_(sizes),
      initial_(initial),
      padding_keys_(Distinct(std::move(padding_keys))),
      segment_(std::move(segment)),
      opened_(*header()),
      home_(sizes.home_rows > 0 ? reinterpret_cast<float*>(segment_->base() + opened_.home_offset) : nullptr),
      disk_(opened_.disk_offset != 0 ? reinterpret_cast<layout::DiskTable*>(segment_->base() + opened_.disk_offset)
                                     : nullptr),
      disk_rows_(disk_ != nullptr ? disk_->disk_slots : 0),
      device_(device),
      allocator_(InstanceAllocator::Make(device)) {
  for (int reader = 0; is_on_disk() && reader < layout::kDiskReaders; ++reader) {
    epochs_[reader].reset(new ReaderEpochs(disk_, reader));
    disk_reads_[reader].reset(new DiskReads(header(), reader));
  }
}

Table::~Table() { allocator_->Disown(); }

bool Table::AwaitsRows(std::int64_t frame) const { return is_on_disk() && LoadAcquire(&disk_->waiting) == frame + 1; }

bool Table::TakeDiskReads(int reader, const void* owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (owners_[reader] == owner) return true;
  if (owners_[reader] != nullptr || !disk_reads_[reader]->IsIdle()) return false;
  owners_[reader] = owner;
  return true;
}

void Table::LeaveDiskReads(int reader, const void* owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (owners_[reader] == owner) owners_[reader] = nullptr;
}

HomeRows Table::home() const {
  HomeRows home;
  if (home_ == nullptr) return home;
  home.data = home_;
  home.row_floats = sizes_.row_floats;
  home.ready = std::max<std::int64_t>(0, std::min(LoadAcquire(&header()->homes_ready), sizes_.home_rows));
  return home;
}

Status Table::FitsHome(const std::vector<StateRows>& state) const {
  std::int64_t floats = 0;
  for (const StateRows& rows : state) floats += rows.width;
  if (home_ == nullptr || floats == sizes_.row_floats) return OkStatus();
  return Refuse(Code::kInvalidArgument, "table '", name_, "': the embedding (", state[0].width, " floats) and its ",
                state.size() - 1, " optimizer slots have ", floats,
                " floats a row, but the table's rows on the host "
                "have ",
                sizes_.row_floats,
                ". Nothing was moved or lost. Make the optimizer and call its minimize() before "
                "the pipeline starts; start the pipeline again after changing it");
}

Status Table::Drive(OpKernelContext* ctx) {
  tensorflow::int64 session;
  TF_RETURN_IF_ERROR(SessionNumber(ctx, &session));
  std::lock_guard<std::mutex> lock(mutex_);
  if (session < driver_) {
    return Refuse(kE206, "table '", name_,
                  "' is trained by another session, which began later than this one. Nothing was trained. One session "
                  "at a time trains a table: close this session, or create a new session to continue");
  }
  driver_ = session;
  return OkStatus();
}

Status Table::Attach(OpKernelContext* ctx, int first, const OptimizerSlots& slots, std::vector<StateRows>* state) {
  state->assign(slots.initial.size() + 1, StateRows());
  TF_RETURN_IF_ERROR(AttachRows(ctx, first, &(*state)[0]));
  if (is_expansion()) {
    *state = StateAtHome(slots);
    return OkStatus();
  }
  for (std::size_t slot = 0; slot < slots.initial.size(); ++slot) {
    StateRows* rows = &(*state)[slot + 1];
    TF_RETURN_IF_ERROR(AttachSlot(ctx, first + 1 + static_cast<int>(slot), slot, slots, rows));
    rows->initial = slots.initial[slot];
  }
  return OkStatus();
}

std::vector<StateRows> Table::StateAtHome(const OptimizerSlots& slots) const {
  std::vector<StateRows> state = {{home_, sizes_.dim, sizes_.row_floats, 0.0f}};
  for (std::size_t slot = 0; slot < slots.widths.size(); ++slot) {
    state.push_back({state[slot].data + state[slot].width, slots.widths[slot], sizes_.row_floats, slots.initial[slot]});
  }
  return state;
}

StateRows Table::State(int index) {
  if (index == 0) return StateRows{device_->rows(), device_->dim(), device_->dim(), 0.0f};
  std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t slot = static_cast<std::size_t>(index - 1);
  if (index < 0 || slot >= slots_.size() || slots_[slot].NumElements() == 0) return StateRows();
  const std::int64_t width = slots_[slot].dim_size(1);
  return StateRows{slots_[slot].flat<float>().data(), width, width, 0.0f};
}

void Table::GiveSlots(const OptimizerSlots& slots) {
  std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t count = slots.widths.size();
  if (slots_.size() < count) slots_.resize(count);
  if (given_.size() < count) given_.resize(count);
  for (std::size_t slot = 0; slot < count; ++slot) {
    if (slots_[slot].NumElements() != 0) continue;
    slots_[slot] = Tensor(tensorflow::DT_FLOAT, {device_->row_count(), slots.widths[slot]});
    slots_[slot].flat<float>().setConstant(slots.initial[slot]);
    given_[slot] = true;
  }
}

float* Table::CopyMemory(int index, std::int64_t width) {
  CopyBuffer& copy = copies_[index];
  if (copy.rows.get() == nullptr || copy.width != width) {
    copy.rows.Free();  // freed first, because there may not be enough memory for both
    copy.rows = PrivateArray<float>(device_->row_count() * width);
    copy.width = width;
  }
  return copy.rows.get();
}

void Table::KeepRows(std::shared_ptr<RowLog> log) {
  std::lock_guard<std::mutex> lock(mutex_);
  row_log_ = std::move(log);
}

std::shared_ptr<RowLog> Table::row_log() {
  std::lock_guard<std::mutex> lock(mutex_);
  return row_log_;
}

Status Table::AttachRows(OpKernelContext* ctx, int input, StateRows* rows) {
  *rows = StateRows{device_->rows(), device_->dim(), device_->dim(), 0.0f};
  tensorflow::mutex_lock lock(*ctx->input_ref_mutex(input));
  const Tensor variable = ctx->mutable_input(input, true);
  if (!variable.IsInitialized()) {
    ctx->replace_ref_input(input, RowsTensor(), true);
    return OkStatus();
  }
  if (variable.flat<float>().data() == device_->rows()) return OkStatus();
  // Assign copies the initializer's tensor unless the op has the attribute _grappler_relax_allocator_constraints, which
  // declares that no other device will read the variable's memory. A copy has the same values as the table's rows.
  const std::size_t bytes = static_cast<std::size_t>(device_->row_count() * device_->dim()) * sizeof(float);
  if (variable.TotalBytes() != bytes || std::memcmp(variable.flat<float>().data(), device_->rows(), bytes) != 0) {
    return Refuse(
        Code::kFailedPrecondition, "the variable of table '", name_, "' (", variable.shape().DebugString(),
        ") holds other memory than the table's rows [", device_->row_count(), ", ", device_->dim(),
        "]: it was assigned by an op other than its initializer. Run its initializer, or do not assign to it");
  }
  ctx->replace_ref_input(input, RowsTensor(), true);
  return OkStatus();
}

Status Table::AttachSlot(OpKernelContext* ctx, int input, std::size_t slot, const OptimizerSlots& slots,
                         StateRows* rows) {
  tensorflow::mutex_lock lock(*ctx->input_ref_mutex(input));
  Tensor variable = ctx->mutable_input(input, true);
  std::lock_guard<std::mutex> own(mutex_);
  if (slots_.size() <= slot) slots_.resize(slot + 1);
  const bool was_given = slot < given_.size() && given_[slot];
  if (was_given) given_[slot] = false;
  if (!variable.IsInitialized() || was_given) {
    if (slots_[slot].NumElements() == 0 && slot < slots.widths.size()) {
      slots_[slot] = Tensor(tensorflow::DT_FLOAT, {device_->row_count(), slots.widths[slot]});
      slots_[slot].flat<float>().setConstant(slots.initial[slot]);
    }
    if (slots_[slot].NumElements() == 0) {  // the slot was neither attached nor given
      return Refuse(Code::kFailedPrecondition, "optimizer slot ", slot, " of table '", name_,
                    "' is not initialised: run the initializers of the optimizer's variables");
    }
    ctx->replace_ref_input(input, slots_[slot], true);
    variable = slots_[slot];
  }
  if (variable.dims() != 2 || variable.dim_size(0) != device_->row_count()) {
    return Refuse(Code::kInvalidArgument, "optimizer slot ", slot, " of table '", name_, "' has shape ",
                  variable.shape().DebugString(), ", expected [", device_->row_count(), ", width]");
  }
  slots_[slot] = variable;
  *rows = StateRows{variable.flat<float>().data(), variable.dim_size(1), variable.dim_size(1), 0.0f};
  return OkStatus();
}

}  // namespace ascpipe
