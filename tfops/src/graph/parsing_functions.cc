// Replaces ParseExample by AscParseExample in the functions of datasets.
//
// Only the functions of the executed graph are changed. The program's graph keeps TensorFlow's op, so that exported
// models do not depend on ascpipe.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bridge/compatibility.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/op.h"

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

bool IsReplaced(const tensorflow::NodeDef& node) { return node.op() == kReplaced; }

// With a TensorFlow that has this op, Python creates it instead of ParseExample.
bool HasNewerOp() {
  const tensorflow::OpRegistrationData* newer;
  return tensorflow::OpRegistry::Global()->LookUp("ParseExampleV2", &newer).ok();
}

class ParsingFunctionsPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    if (options.flib_def == nullptr || !IsEnabled() || HasNewerOp()) return OkStatus();
    for (const std::string& name : options.flib_def->ListFunctionNames()) {
      const auto& body = options.flib_def->Find(name)->node_def();
      if (std::none_of(body.begin(), body.end(), IsReplaced)) continue;
      tensorflow::FunctionDef function = *options.flib_def->Find(name);
      for (tensorflow::NodeDef& node : *function.mutable_node_def()) {
        if (IsReplaced(node)) node.set_op(kReplacement);
      }
      TF_RETURN_IF_ERROR(options.flib_def->ReplaceFunction(name, function));
    }
    return OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, ParsingFunctionsPass);

}  // namespace

}  // namespace ascpipe
