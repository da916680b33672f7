// AscSubmit: hands the ids of one batch to the pipeline.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscSubmit")
    .Input("ids: Tids")
    .Output("ticket: int64")
    .Attr("Tids: list({int32, int64}) >= 1")
    .Attr("stream: int")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Hands the ids of one batch to the pipeline and returns the ticket of the batch.

Never waits: the ids are kept by reference until there is room for them in the ring.  When the last
reference to the ticket tensor goes, the batch can no longer be trained and its place is given back.

ids: one int32 or int64 tensor of at most 6 dimensions per feature, in the order in which the stream was declared.
ticket: int64 scalar; travels with the batch to the plan ops of the same step.
stream: number of the stream, as declared when the pipeline was started.
)doc");
