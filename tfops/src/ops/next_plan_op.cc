// AscNextPlan: claims the plan of a batch for one table and moves its rows.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscNextPlan")
    .Input("ticket: int64")
    .Input("state: Ref(n_state * float)")
    .Output("slots: int32")
    .Output("restore: k * int32")
    .Attr("table: int")
    .Attr("stream: int")
    .Attr("k: int >= 1")
    .Attr("n_state: int >= 1")
    .Attr("training: bool")
    .Attr("slot_initial: list(float) = []")
    .SetIsStateful()
    .SetAllowsUninitializedInput()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle ticket;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &ticket));
      c->set_output(0, c->Vector(c->UnknownDim()));
      for (int i = 1; i < c->num_outputs(); ++i) c->set_output(i, c->UnknownShape());
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Claims the plan of a batch for one table, moves its rows, and returns where they are.

When training, from the first claim to the end of the step the trainer is leased to this step; rows of new
keys get their initial values.  When evaluating (training = false), keys are resolved as they are after the last
trained step, nothing is changed, keys without a row have slot -1.

ticket: int64 scalar of AscSubmit, fetched in the same step.
state: the table variable float[rows, dim], then each of its optimizer slot variables float[rows, width].
  An uninitialised variable is attached to the state that the table has in this process.
slots: int32[distinct ids of the batch], -1 where a key has no row.
restore: int32, one per feature of the table, of the shape of its ids: index into slots.
table: number of the table.
stream: number of the stream.
k: features of the table in this stream.
n_state: number of state variables.
training: whether this is the training channel.
slot_initial: initial value of each optimizer slot variable, n_state - 1 of them.
)doc");
