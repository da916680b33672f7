// AscProvisionalPlan: placeholder of AscNextPlan while a graph is being built.
#include "bridge/pipeline.h"
#include "bridge/status.h"
#include "core/error_codes.gen.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscProvisionalPlan")
    .Input("ticket: int64")
    .Output("slots: int32")
    .Output("restore: k * int32")
    .Attr("table: int")
    .Attr("stream: int")
    .Attr("k: int >= 1")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ticket));
      c->set_output(0, c->Vector(c->UnknownDim()));
      for (int i = 1; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Stands for the plan of a table until the pipeline is started, which puts AscNextPlan in its place.

A lookup is built before the optimizer has made its slot variables, so the op that moves rows cannot be
built with it.  Running this op is an error that says how to start the pipeline.

ticket: int64 scalar of AscSubmit.
slots: int32[distinct ids], as of AscNextPlan.
restore: int32, one per feature of the table, of the shape of its ids.
table: number of the table.
stream: number of the stream.
k: features of the table in this stream.
)doc");

namespace ascpipe {

class ProvisionalPlanOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {
    ctx->SetStatus(Refuse(kE205,
                          "The pipeline was not started when this session first ran, so the session knows no tables. "
                          "Nothing was run. Call ",
                          StartCall(), " after the graph is built, and make the session after it"));
  }
};

REGISTER_KERNEL_BUILDER(Name("AscProvisionalPlan").Device(tensorflow::DEVICE_CPU), ProvisionalPlanOp);

}  // namespace ascpipe
