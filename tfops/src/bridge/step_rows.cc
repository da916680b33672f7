#include "bridge/step_rows.h"

#include <algorithm>
#include <cstring>

#include "core/disk_errors.h"
#include "core/home_rows.h"

namespace ascpipe {

CoreStatus StepRows::Take(const PartView& part, const PlanOutputs::Array& slots) {
  const std::int64_t* const keys = part.array<std::int64_t>(&layout::Part::unique);
  const std::int32_t* const disk_slots = part.array<std::int32_t>(&layout::Part::homes);
  const std::int32_t* const generations = part.array<std::int32_t>(&layout::Part::frequencies);
  const HomeRows home = table_->home();
  const std::size_t dim = static_cast<std::size_t>(table_->device().dim());
  std::int64_t copies = 0;
  for (std::int64_t i = 0; i < slots.count; ++i) {
    const std::int32_t slot = slots.data[i];
    if (slot >= layout::kSlotNone) continue;
    rows_.resize(rows_.size() + dim);
    if (slot == layout::kSlotDisk) {
      places_.push_back({keys[i], disk_slots[i], static_cast<std::uint32_t>(generations[i])});
      copies_.push_back(copies);
    } else {
      const std::int64_t row = HomeOf(slot);
      if (row >= home.ready) {
        return Damaged(table_->name(), part.ticket(), "gives key ", i, " the home row ", row, " of ", home.ready);
      }
      std::memcpy(rows_.data() + static_cast<std::size_t>(copies) * dim, home.data + row * home.row_floats,
                  dim * sizeof(float));
    }
    slots.data[i] = static_cast<std::int32_t>(layout::kSlotHome - copies++);
  }
  return CoreStatus();
}

bool StepRows::Ask(DiskReads* reads) {
  begin_ = end_;
  end_ = std::min(places_.size(), begin_ + static_cast<std::size_t>(layout::kDiskReads));
  if (begin_ == end_) return false;
  reads->Ask(places_.data() + begin_, static_cast<std::int64_t>(end_ - begin_), layout::kRequestRead);
  return true;
}

CoreStatus StepRows::Take(const DiskReads& reads) {
  std::int32_t error;
  const std::int64_t failed = reads.FirstFailed(&error);
  if (failed >= 0) {
    return CannotMove(table_->name(), table_->directories(), places_[begin_ + static_cast<std::size_t>(failed)],
                      layout::kRequestRead, error);
  }
  const std::size_t dim = static_cast<std::size_t>(table_->device().dim());
  for (std::size_t i = begin_; i < end_; ++i) {
    std::memcpy(rows_.data() + static_cast<std::size_t>(copies_[i]) * dim,
                reads.row(static_cast<std::int64_t>(i - begin_)), dim * sizeof(float));
  }
  return CoreStatus();
}

}  // namespace ascpipe
