#include "bridge/handled_rows.h"

#include <algorithm>

#include "bridge/parallel.h"
#include "bridge/status.h"

namespace ascpipe {

using tensorflow::OpKernelContext;
using tensorflow::Status;

Status FindExpansionTable(int number, std::shared_ptr<Pipeline>* pipeline, HandledTable* table) {
  TF_RETURN_IF_ERROR(ToStatus(CurrentPipeline(pipeline)));
  const Table* found = (*pipeline)->table(number);
  if (found == nullptr) return Refuse(Code::kInvalidArgument, "there is no table ", number, " in this pipeline");
  if (!found->is_expansion()) {
    return Refuse(Code::kInvalidArgument, "rows of table '", found->name(),
                  "' have no handles, they move between "
                  "device and host: only with use_dynamic_expansion are rows used where they lie");
  }
  table->number = number;
  table->name = found->name();
  table->step = found->step();
  table->home = found->home();
  return OkStatus();
}

Status FindHandledRows(OpKernelContext* ctx, std::int64_t width, std::shared_ptr<Pipeline>* pipeline,
                       HandledTable* table) {
  const tensorflow::Tensor& handles = ctx->input(0);
  if (handles.dims() != 1) {
    return Refuse(Code::kInvalidArgument, "handles have shape ", handles.shape().DebugString(), ", expected a vector");
  }
  const std::int64_t* begin = AsInt64(handles);
  const std::int64_t* end = begin + handles.NumElements();
  const std::int64_t* first = std::find_if(begin, end, [](std::int64_t handle) { return handle != 0; });
  if (first == end) return OkStatus();
  const Status found = FindExpansionTable(Handle::Of(*first).table, pipeline, table);
  if (!found.ok()) {
    return Refuse(static_cast<Code>(found.code()), Describe(*first, first - begin), ": ", MessageOf(found),
                  ". Nothing was read or written");
  }
  if (width > table->home.row_floats) {
    return Refuse(Code::kInvalidArgument, width, " floats of each row of table '", table->name, "', which has ",
                  table->home.row_floats, " (the embedding, then each optimizer slot). Nothing was read or written");
  }
  return ToStatus(CheckHandles(begin, handles.NumElements(), *table));
}

void ReadRowsTogether(OpKernelContext* ctx, const HomeRows& home, const std::int64_t* handles, std::int64_t count,
                      std::int64_t width, float* out) {
  ShareBlocks(ctx, count, BlockRows(width),
              [&](std::int64_t begin, std::int64_t end) { ReadRows(home, handles, begin, end, width, out); });
}

}  // namespace ascpipe
