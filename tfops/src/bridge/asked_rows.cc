#include "bridge/asked_rows.h"

#include <cstdint>
#include <vector>

#include "bridge/parallel.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "core/gather.h"
#include "core/home_rows.h"
#include "core/layout.h"

namespace ascpipe {

using tensorflow::Status;

namespace {

// Removes the mark kSlotFrozen from codes of an expansion table, because the rows of padding keys are read like other
// rows.
std::vector<std::int32_t> WithoutMarks(const std::int32_t* codes, std::int64_t count) {
  std::vector<std::int32_t> slots(codes, codes + count);
  for (std::int32_t& slot : slots) {
    const std::int64_t home = HomeOf(slot);
    slot = home < 0 ? layout::kSlotNone : static_cast<std::int32_t>(layout::kSlotHome - home);
  }
  return slots;
}

}  // namespace

Status GatherAsked(tensorflow::OpKernelContext* ctx, const Table& table, const StepRows* copies,
                   const tensorflow::Tensor& slots, const tensorflow::Tensor& restore, float* rows) {
  const HomeRows home = table.home();
  const std::int64_t dim = table.device().dim();
  const std::int32_t* codes = slots.flat<tensorflow::int32>().data();
  std::vector<std::int32_t> unmarked;
  if (table.is_expansion()) {
    unmarked = WithoutMarks(codes, slots.NumElements());
    codes = unmarked.data();
  }
  const std::vector<float> none(static_cast<std::size_t>(dim));
  GatherSource source = {table.device().rows(),
                         table.device().row_count(),
                         dim,
                         codes,
                         slots.NumElements(),
                         none.data(),
                         home.data,
                         home.ready,
                         home.row_floats};
  if (copies != nullptr) {
    source.homes = copies->rows();
    source.home_count = copies->count();
    source.home_floats = dim;
  }
  const std::int64_t bad = FirstBadSlot(source);
  if (bad >= 0) return Refuse(kE301, "AscForward: slot ", codes[bad], " of table '", table.name(), "'");
  const Gathered gathered = {restore.flat<tensorflow::int32>().data(), restore.NumElements(), rows, dim};
  ShareBlocks(ctx, gathered.n, 4 * BlockRows(dim),
              [&](std::int64_t begin, std::int64_t end) { GatherRows(source, gathered, begin, end); });
  return OkStatus();
}

}  // namespace ascpipe
