#include "graph/step_pass.h"

#include <algorithm>

#include "graph/step_compiler.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/public/session_options.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Status;

namespace {

// A custom optimizer of this name in the configuration of a session asks for `OrderVariables`.
// ascpipe/tf/incumbent/ascend/deterministic.py adds it.  TensorFlow ignores unknown names.
constexpr char kAskedBy[] = "AscpipeDeterministic";

bool IsAsked(const GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr) return false;
  const auto& asked = options.session_options->config.graph_options().rewrite_options().custom_optimizers();
  return std::any_of(asked.begin(), asked.end(), [](const auto& optimizer) { return optimizer.name() == kAskedBy; });
}

// A session runs the pass once for each set of fetches, on the graph that is pruned to them.
class StepPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return Status::OK();
    Graph* const graph = options.graph->get();
    TF_RETURN_IF_ERROR(ExchangeAmongRanks(graph));
    TF_RETURN_IF_ERROR(CompileStep(graph));
    return IsAsked(options) ? OrderVariables(graph) : Status::OK();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, StepPass);

}  // namespace

}  // namespace ascpipe
