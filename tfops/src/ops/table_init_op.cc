// AscTableInit: the initial value of a table variable, which lies over the rows of the table instance.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscTableInit")
    .Output("device_rows: float")
    .Attr("table: int")
    .Attr("rows: int >= 1")
    .Attr("dim: int >= 1")
    .Attr("training: bool")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::int64 rows, dim;
      TF_RETURN_IF_ERROR(c->GetAttr("rows", &rows));
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      c->set_output(0, c->Matrix(rows, dim));
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Gives a table variable the rows that the table has in this process.

With training = true a table that is not empty is emptied first, so running a training graph's initializer
starts anew.  With training = false the variable is attached and nothing changes.  The content of rows that
belong to no key is not defined.

device_rows: float[rows, dim]; the first Assign keeps its memory instead of copying it.
table: number of the table.
rows: device rows of the table.
dim: length of a row.
training: whether the graph trains the table.
)doc");
