#include "bridge/step_pass.h"

#include <algorithm>

#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/public/session_options.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Status;

namespace {

// A custom optimizer of this name in the configuration of a session asks for `OrderVariables`.  TensorFlow ignores unknown names.
// ascpipe/tf/incumbent/ascend/deterministic.py adds it.
constexpr char kAskedBy[] = "AscpipeDeterministic";

bool IsAsked(const GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr) return false;
  const auto& asked = options.session_options->config.graph_options().rewrite_options().custom_optimizers();
  return std::any_of(asked.begin(), asked.end(), [](const auto& optimizer) { return optimizer.name() == kAskedBy; });
}

// In this order:
constexpr Status (*kChanges[])(Graph*) = {
    ExchangeAmongRanks,     // before what fuses the ops that it makes
    FuseCombines,           // before FuseLookups, which finds the lookups of bags gone
    FuseLookups,            // before FuseTables, which finds its gradients
    CombineTablesTogether,
    FuseTables,
    OrderStep,              // after all that replaces plans and lookups
};

// A session runs it once per set of fetches, on the graph pruned to them.
class StepPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return Status::OK();
    Graph* const graph = options.graph->get();
    for (const auto change : kChanges) TF_RETURN_IF_ERROR(change(graph));
    return IsAsked(options) ? OrderVariables(graph) : Status::OK();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, StepPass);

}  // namespace

}  // namespace ascpipe
