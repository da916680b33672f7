#include "bridge/served_lookup.h"

namespace ascpipe {

tensorflow::Status ShapesOfServedLookup(tensorflow::shape_inference::InferenceContext* c) {
  tensorflow::shape_inference::ShapeHandle scalar, fallback, out;
  tensorflow::int64 dim;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &scalar));
  TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(2), 1, &fallback));
  TF_RETURN_IF_ERROR(c->GetAttr("dim", &dim));
  TF_RETURN_IF_ERROR(c->Concatenate(c->input(1), c->Vector(dim), &out));
  c->set_output(0, out);
  if (c->num_outputs() > 1) c->set_output(1, c->input(1));
  return OkStatus();
}

}  // namespace ascpipe
