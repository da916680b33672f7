// Output shapes from an op's attribute `shapes`.
#ifndef ASCPIPE_BRIDGE_KNOWN_SHAPES_H_
#define ASCPIPE_BRIDGE_KNOWN_SHAPES_H_

#include <vector>

#include "bridge/compatibility.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ascpipe {

// Sets the shapes of output `first` and all later outputs. Outputs without an element in the attribute `shapes` have
// unknown shapes.
inline tensorflow::Status SetKnownShapes(tensorflow::shape_inference::InferenceContext* c, int first) {
  std::vector<tensorflow::PartialTensorShape> shapes;
  TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
  shapes.resize(static_cast<std::size_t>(c->num_outputs() - first));
  for (int i = first; i < c->num_outputs(); ++i) {
    tensorflow::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(shapes[static_cast<std::size_t>(i - first)], &shape));
    c->set_output(i, shape);
  }
  return OkStatus();
}

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_KNOWN_SHAPES_H_
