// Changes dataset maps that do little more than submit ids. A changed map runs on the thread that requests the batch.
//
// By default, TensorFlow runs the function of a map on its thread pool. TensorFlow wakes a thread of the pool for each
// batch, while the requesting thread sleeps. The wake-up takes longer than AscSubmit. TensorFlow also sets up the
// default executor at each call of the function, which takes longer than AscSubmit.
#include <algorithm>
#include <string>

#include "bridge/compatibility.h"
#include "graph/step_graph.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace ascpipe {

using tensorflow::Node;
using tensorflow::Status;

namespace {

constexpr char kOnPool[] = "use_inter_op_parallelism";
constexpr char kFunction[] = "f";
constexpr char kExecutor[] = "_executor";  // attribute of a called function that selects its executor
// Name of the TensorFlow executor that runs one op after another. All ops must be synchronous.
constexpr char kInOrder[] = "SINGLE_THREADED_EXECUTOR";

// Returns true if a function submits ids and does nothing else that takes noticeable time.
bool OnlySubmits(const tensorflow::FunctionDef& function) {
  const auto& body = function.node_def();
  const auto submits = [](const tensorflow::NodeDef& node) { return node.op() == "AscSubmit"; };
  const auto is_light = [&submits](const tensorflow::NodeDef& node) {
    const char* const light[] = {"Const", "ExpandDims", "Identity", "NoOp", "Reshape", "Squeeze"};
    return submits(node) || std::find(std::begin(light), std::end(light), node.op()) != std::end(light);
  };
  return std::any_of(body.begin(), body.end(), submits) && std::all_of(body.begin(), body.end(), is_light);
}

class SubmittingMapPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr || options.flib_def == nullptr) return OkStatus();
    for (Node* node : (*options.graph)->op_nodes()) {
      tensorflow::NameAttrList called;
      if (node->type_string() != "MapDataset" || !IsTrue(*node, kOnPool) ||
          !tensorflow::GetNodeAttr(node->attrs(), kFunction, &called).ok()) {
        continue;
      }
      const tensorflow::FunctionDef* const function = options.flib_def->Find(called.name());
      if (function == nullptr || !OnlySubmits(*function)) continue;
      node->ClearAttr(kOnPool);
      node->AddAttr(kOnPool, false);
      (*called.mutable_attr())[kExecutor].set_s(kInOrder);
      node->ClearAttr(kFunction);
      node->AddAttr(kFunction, called);
    }
    return OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, SubmittingMapPass);

}  // namespace

}  // namespace ascpipe
