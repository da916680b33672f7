// Replaces ParseExample by AscParseExample in the functions of datasets.
//
// Only the functions of the executed graph are changed. The program's graph keeps TensorFlow's op, so that exported
// models do not depend on ascpipe.
#include <cstdlib>
#include <cstring>
#include <string>

#include "bridge/compatibility.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"

namespace ascpipe {

using tensorflow::Status;

namespace {

constexpr char kVariable[] = "ASCPIPE_FAST_INPUT";  // environment variable: 0 keeps TensorFlow's op
constexpr char kReplaced[] = "ParseExample";
constexpr char kReplacement[] = "AscParseExample";

bool IsEnabled() {
  const char* const value = std::getenv(kVariable);
  return value == nullptr || std::strcmp(value, "0") != 0;
}

// Returns true if the function had ops to replace.
bool Replace(tensorflow::FunctionDef* function) {
  bool changed = false;
  for (tensorflow::NodeDef& node : *function->mutable_node_def()) {
    if (node.op() != kReplaced) continue;
    node.set_op(kReplacement);
    changed = true;
  }
  return changed;
}

class ParsingFunctionsPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.flib_def == nullptr || !IsEnabled()) return OkStatus();
    for (const std::string& name : options.flib_def->ListFunctionNames()) {
      tensorflow::FunctionDef function = *options.flib_def->Find(name);
      if (Replace(&function)) TF_RETURN_IF_ERROR(options.flib_def->ReplaceFunction(name, function));
    }
    return OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, ParsingFunctionsPass);

}  // namespace

}  // namespace ascpipe
