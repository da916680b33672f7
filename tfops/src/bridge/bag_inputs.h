// Inputs and attributes of ops that combine bags.
#ifndef ASCPIPE_BRIDGE_BAG_INPUTS_H_
#define ASCPIPE_BRIDGE_BAG_INPUTS_H_

#include <string>

#include "core/bags.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace ascpipe {

// Parses the name of a combiner: "sum", "mean" or "sqrtn".
tensorflow::Status ReadCombiner(const std::string& name, Combiner* combiner);

// Sets splits, count, positions and weights of *bags. `splits` is int64[bags + 1] and ascends from 0 to `positions`,
// the number of ids. `weights` is float[positions] or null. `splits` and `weights` must stay valid while *bags is used.
tensorflow::Status ReadBags(const std::string& op, const tensorflow::Tensor& splits, const tensorflow::Tensor* weights,
                            std::int64_t positions, Bags* bags);

}  // namespace ascpipe

#endif  // ASCPIPE_BRIDGE_BAG_INPUTS_H_
