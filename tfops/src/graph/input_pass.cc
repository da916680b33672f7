// Makes the datasets of programs faster: records are batched before they are parsed, and AscParseExample parses the
// batches.
//
// Only the executed graph is changed. The program's graph keeps TensorFlow's ops, so that exported models do not depend
// on ascpipe.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "bridge/compatibility.h"
#include "graph/batch_first.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/graph_to_functiondef.h"
#include "tensorflow/core/framework/op.h"

namespace ascpipe {

using tensorflow::FunctionDef;
using tensorflow::NodeDef;
using tensorflow::Status;

namespace {

constexpr char kVariable[] = "ASCPIPE_FAST_INPUT";  // environment variable; the value 0 keeps TensorFlow's ops
constexpr char kReplaced[] = "ParseExample";
constexpr char kReplacement[] = "AscParseExample";

bool IsEnabled() {
  const char* const value = std::getenv(kVariable);
  return value == nullptr || std::strcmp(value, "0") != 0;
}

bool IsParsing(const NodeDef& node) { return node.op() == kReplaced; }

bool IsBatching(const NodeDef& node) { return node.op() == "BatchDataset" || node.op() == "BatchDatasetV2"; }

template <typename Condition>
bool HasNode(const FunctionDef& function, Condition condition) {
  return std::any_of(function.node_def().begin(), function.node_def().end(), condition);
}

// TensorFlow's Python functions create ParseExampleV2 instead of ParseExample if the TensorFlow version has
// ParseExampleV2.
bool HasNewerOp() {
  const tensorflow::OpRegistrationData* newer;
  return tensorflow::OpRegistry::Global()->LookUp("ParseExampleV2", &newer).ok();
}

class InputPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const tensorflow::GraphOptimizationPassOptions& options) override {
    tensorflow::FunctionLibraryDefinition* const library = options.flib_def;
    if (options.graph == nullptr || *options.graph == nullptr || library == nullptr || !IsEnabled()) return OkStatus();
    bool changed;
    TF_RETURN_IF_ERROR(BatchFirst(options.graph->get(), library, &changed));
    for (const std::string& name : library->ListFunctionNames()) {
      if (HasNode(*library->Find(name), IsBatching)) TF_RETURN_IF_ERROR(BatchFirstIn(name, library));
    }
    const bool has_newer_op = HasNewerOp();
    for (const std::string& name : library->ListFunctionNames()) {
      if (!has_newer_op && HasNode(*library->Find(name), IsParsing)) TF_RETURN_IF_ERROR(ReplaceOps(name, library));
    }
    return OkStatus();
  }

 private:
  // One-shot iterators, `flat_map` and `interleave` create their datasets in functions.
  static Status BatchFirstIn(const std::string& name, tensorflow::FunctionLibraryDefinition* library) {
    const FunctionDef before = *library->Find(name);
    std::unique_ptr<tensorflow::FunctionBody> body;
    bool changed;
    TF_RETURN_IF_ERROR(BodyOf(name, *library, &body));
    TF_RETURN_IF_ERROR(BatchFirst(body->graph, library, &changed));
    if (!changed) return OkStatus();
    FunctionDef after;
    TF_RETURN_IF_ERROR(tensorflow::GraphToFunctionDef(*body->graph, name, &after));
    *after.mutable_control_ret() = before.control_ret();
    *after.mutable_signature()->mutable_control_output() = before.signature().control_output();
    for (int i = 0; i < before.signature().output_arg_size(); ++i) {  // Callers know the names of outputs.
      std::string* const output = after.mutable_signature()->mutable_output_arg(i)->mutable_name();
      const std::string result = after.ret().at(*output);
      after.mutable_ret()->erase(*output);
      *output = before.signature().output_arg(i).name();
      (*after.mutable_ret())[*output] = result;
    }
    return library->ReplaceFunction(name, after);
  }

  static Status ReplaceOps(const std::string& name, tensorflow::FunctionLibraryDefinition* library) {
    FunctionDef function = *library->Find(name);
    for (NodeDef& node : *function.mutable_node_def()) {
      if (IsParsing(node)) node.set_op(kReplacement);
    }
    return library->ReplaceFunction(name, function);
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, InputPass);

}  // namespace

}  // namespace ascpipe
