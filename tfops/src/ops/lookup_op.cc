// AscLookup: the rows of all features of one table.
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("AscLookup")
    .Input("rows: Ref(float)")
    .Input("slots: int32")
    .Input("restore: k * int32")
    .Input("default_row: float")
    .Output("embeddings: k * float")
    .Attr("k: int >= 1")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle rows, slots, fallback;
      const int k = c->num_outputs();
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &rows));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &slots));
      TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(2 + k), 1, &fallback));
      const auto dim = c->Vector(c->Dim(rows, 1));
      for (int i = 0; i < k; ++i) {
        tensorflow::shape_inference::ShapeHandle out;
        TF_RETURN_IF_ERROR(c->Concatenate(c->input(2 + i), dim, &out));
        c->set_output(i, out);
      }
      return tensorflow::Status::OK();
    })
    .Doc(R"doc(
Looks up the rows of all features of one table: embeddings_j[...] = rows[slots[restore_j[...]]].

rows: float[device rows, dim], the table variable.
slots: int32[distinct ids] of AscNextPlan, each in [0, device rows), or -1 for the default row.
restore: int32 of any shape, one per feature, each value in [0, distinct ids).
default_row: float[dim], or a float scalar for all columns.
embeddings: float, the shape of restore_j followed by dim.
k: number of features.
)doc");
