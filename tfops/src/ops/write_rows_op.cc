// AscWriteRows: stores into home rows by handle, or adds to them.
#include <algorithm>
#include <memory>

#include "bridge/handled_rows.h"
#include "bridge/parallel.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscWriteRows")
    .Input("handles: int64")
    .Input("rows: float")
    .Attr("add: bool = false")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle handles, rows;
      tensorflow::shape_inference::DimensionHandle count;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &handles));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &rows));
      return c->Merge(c->Dim(handles, 0), c->Dim(rows, 0), &count);
    })
    .Doc(R"doc(
Writes rows of an expansion table, from their beginning.

All handles are examined before the first row is written.  A row that is named more than once is written in the order
of the handles, at any number of threads: the last value stays, or all are added one after the other.

handles: int64[m] of AscLocalRows in the same step, all of one table; what belongs to 0 is left out.
rows: float[m, width], for the first `width` floats of each row, at most the floats of a whole row.
add: whether to add to what the rows hold.
)doc");

namespace ascpipe {

class WriteRowsOp : public tensorflow::OpKernel {
 public:
  explicit WriteRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("add", &add_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& handles = ctx->input(0);
    const tensorflow::Tensor& rows = ctx->input(1);
    const std::int64_t count = handles.NumElements();
    OP_REQUIRES(ctx, rows.dims() == 2 && rows.dim_size(0) == count,
                Refuse(Code::kInvalidArgument, "AscWriteRows: rows have shape ", rows.shape().DebugString(), " for ",
                       count, " handles, expected [", count, ", width]. Nothing was written"));
    const std::int64_t width = rows.dim_size(1);
    std::shared_ptr<Pipeline> pipeline;  // its mapping stays while rows are written
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindHandledRows(ctx, width, &pipeline, &table));
    const RowWrites writes = {table.home, AsInt64(handles), count, width, rows.flat<float>().data(), add_};
    const std::int64_t threads = ctx->device()->tensorflow_cpu_worker_threads()->num_threads;
    const std::int64_t parts = std::max<std::int64_t>(1, std::min(threads, count / BlockRows(width)));
    ShareBlocks(ctx, parts, 1, [&writes, parts](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) writes.Write(part, parts);
    });
  }

 private:
  bool add_;
};

REGISTER_KERNEL_BUILDER(Name("AscWriteRows").Device(tensorflow::DEVICE_CPU), WriteRowsOp);

}  // namespace ascpipe
