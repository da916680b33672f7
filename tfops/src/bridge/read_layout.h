// Layout of AscRead: the features that the op looks up, and the concatenation of features into outputs.
#ifndef ASCPIPE_BRIDGE_READ_LAYOUT_H_
#define ASCPIPE_BRIDGE_READ_LAYOUT_H_

#include <vector>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace ascpipe {

struct ReadLayout {
  // Index of the first input of each kind. The inputs `rows` of all sources are first, followed by the inputs `slots`.
  int default_row = 0, restore = 0, splits = 0, weights = 0, others = 0;
  // Number of inputs of each kind.
  int source_count = 0, feature_count = 0, splits_count = 0, weights_count = 0, other_count = 0;

  std::vector<int> sources;  // [features]: index of the input `rows` of the feature
  std::vector<int> bags;     // [features]: index of the input `splits`; -1: the feature is not combined
  // Numbers of the pieces of each output. Feature i has number i, and `others` input i has number feature_count + i.
  std::vector<std::vector<int>> outputs;

  bool is_combined(int feature) const { return bags[static_cast<std::size_t>(feature)] >= 0; }
};

// Returns the layout of AscLookup and AscRestoreRows, in which each feature is an output.
ReadLayout LayoutOfTable(int features);

// Returns the layout of AscRead, computed from its attributes.
tensorflow::Status ReadLayoutOf(tensorflow::OpKernelConstruction* construction, ReadLayout* layout);
tensorflow::Status ReadLayoutOf(tensorflow::shape_inference::InferenceContext* context, ReadLayout* layout);

// Shape function of AscRead.
tensorflow::Status ShapesOfRead(tensorflow::shape_inference::InferenceContext* c);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_READ_LAYOUT_H_
