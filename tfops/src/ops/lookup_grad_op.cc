// AscLookupGrad: the gradient of AscLookup with respect to the rows, summed per row.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscLookupGrad")
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("grads: k * float")
    .Output("values: float")
    .Output("indices: int32")
    .Attr("k: int >= 1")
    .Attr("dim: int >= 1")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle slots;
      tensorflow::int64 dim;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 1, &slots));
      TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
      const auto valid = c->UnknownDim();
      c->set_output(0, c->Matrix(valid, c->MakeDim(dim)));
      c->set_output(1, c->Vector(valid));
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Sums the gradients of all features of a table per row, in canonical order.

The order of the additions of a row is: feature 0 to k-1, then position in the batch.  So the sum is
bit-equal to unsorted_segment_sum over the concatenated gradients, at any number of threads.

slots: int32[distinct ids], as given to AscLookup.
restore: int32, one per feature, as given to AscLookup.
grads: float, the shape of restore_j followed by dim.
values: float[valid, dim], sums of the distinct ids whose slot is not -1, in the order of slots.
indices: int32[valid], their slots: no repeats, none negative.
k: number of features.
dim: length of a row.
)doc");
