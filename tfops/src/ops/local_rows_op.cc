// AscLocalRows: rows of a batch's keys in an expansion table, and handles that name them.
#include <memory>

#include "bridge/handled_rows.h"
#include "bridge/status.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscLocalRows")
    .Input("slots: int32")
    .Input("ticket: int64")
    .Output("handles: int64")
    .Output("places: int32")
    .Output("local: float")
    .Attr("table: int")
    .Attr("dim: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle slots, ticket;
      tensorflow::int64 dim;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &slots));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 0, &ticket));
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(0, slots);
      c->set_output(1, slots);
      c->set_output(2, c->Matrix(c->Dim(slots, 0), dim));
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Copies the rows of the distinct ids of a batch out of an expansion table, and names them for AscReadRows and
AscWriteRows.

slots: int32[n], n distinct ids, of AscNextPlan in training: codes of home rows.
ticket: int64 scalar, as given to AscNextPlan.
handles: int64[n], valid until the end of this step; 0 of a key without a row.
places: int32[n], i for row i of local, of a padding key with 2^30 added; -1 of a key without a row.
local: float[n, dim], the embeddings; zeros of a key without a row.
table: number of the table, at most 254.
dim: length of an embedding.
)doc");

namespace ascpipe {

class LocalRowsOp : public tensorflow::OpKernel {
 public:
  explicit LocalRowsOp(tensorflow::OpKernelConstruction* construction) : OpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("table", &table_));
    OP_REQUIRES_OK(construction, construction->GetAttr("dim", &dim_));
    OP_REQUIRES(construction, table_ >= 0 && table_ <= kMaxHandledTable,
                Refuse(Code::kInvalidArgument, "AscLocalRows: table number ", table_, " is outside [0, ",
                       kMaxHandledTable, "]: a handle has no room for more. Use fewer tables"));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    const tensorflow::Tensor& slots = ctx->input(0);
    const tensorflow::Tensor& ticket = ctx->input(1);
    OP_REQUIRES(ctx, slots.dims() == 1 && ticket.dims() == 0,
                Refuse(Code::kInvalidArgument, "AscLocalRows: slots and ticket have shapes ",
                       slots.shape().DebugString(), " and ", ticket.shape().DebugString(),
                       ", expected a vector and a scalar"));
    std::shared_ptr<Pipeline> pipeline;  // its mapping stays while rows are read from it
    HandledTable table;
    OP_REQUIRES_OK(ctx, FindExpansionTable(table_, &pipeline, &table));
    OP_REQUIRES_OK(ctx, Examine(ticket.scalar<tensorflow::int64>()(), *pipeline, table));
    const std::int64_t n = slots.NumElements();
    tensorflow::Tensor *handles, *places, *local;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, slots.shape(), &handles));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(1, slots.shape(), &places));
    OP_REQUIRES_OK(ctx, ctx->allocate_output(2, tensorflow::TensorShape({n, dim_}), &local));
    const auto codes = slots.flat<tensorflow::int32>();
    std::int64_t* names = AsInt64(handles);
    const std::int64_t bad = NameRows(codes.data(), n, table, names, places->flat<tensorflow::int32>().data());
    OP_REQUIRES(ctx, bad < 0,
                Refuse(Code::kInvalidArgument, "AscLocalRows: slot ", codes(bad), " at index ", bad,
                       " is neither -1 nor one of the ", table.home.ready, " home rows of table '", table.name, "'"));
    ReadRowsTogether(ctx, table.home, names, n, dim_, local->flat<float>().data());
  }

 private:
  tensorflow::Status Examine(std::int64_t ticket, const Pipeline& pipeline, const HandledTable& table) const {
    const std::int64_t dim = pipeline.table(table_)->device().dim();
    if (dim != dim_) {
      return Refuse(Code::kInvalidArgument, "AscLocalRows: rows of ", dim_, " floats of table '", table.name,
                    "', which has dim ", dim);
    }
    if (table.step == StepOf(ticket)) return tensorflow::Status::OK();
    return Refuse(Code::kFailedPrecondition, "AscLocalRows: table '", table.name, "' is not training ticket ",
                  SequenceOf(ticket), " now: slots are valid in the step whose AscNextPlan gave them. Fetch a batch "
                  "and use it in one run call");
  }

  int table_;
  tensorflow::int64 dim_;
};

REGISTER_KERNEL_BUILDER(Name("AscLocalRows").Device(tensorflow::DEVICE_CPU), LocalRowsOp);

}  // namespace ascpipe
