#include "graph/step_pass.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "bridge/compatibility.h"
#include "graph/step_reader.h"
#include "graph/step_writer.h"
#include "step/step_rules.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/protobuf/config.pb.h"
#include "tensorflow/core/public/session_options.h"

namespace ascpipe {

using tensorflow::Graph;
using tensorflow::GraphOptimizationPassOptions;
using tensorflow::Status;

namespace {

// `OrderVariables` runs if the session configuration contains a custom optimizer named kAskedBy.
// ascpipe/tf/incumbent/ascend/deterministic.py adds this custom optimizer. TensorFlow ignores unknown names.
constexpr char kAskedBy[] = "AscpipeDeterministic";

bool IsAsked(const GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr) return false;
  const auto& asked = options.session_options->config.graph_options().rewrite_options().custom_optimizers();
  return std::any_of(asked.begin(), asked.end(), [](const auto& optimizer) { return optimizer.name() == kAskedBy; });
}

constexpr std::size_t kMostNamed = 4;    // names per log line
constexpr std::size_t kMostTexts = 100;  // texts that are kept, so that a program with many graphs needs little memory

// Returns true if no earlier call had the same text. A notebook, for example, builds the same graph repeatedly.
bool IsFirst(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string>* const logged = new std::set<std::string>;  // not destroyed while threads use it
  const std::lock_guard<std::mutex> lock(mutex);
  if (logged->size() >= kMostTexts) logged->clear();
  return logged->insert(text).second;
}

// Logs the lookups, joins and sums that are not merged, with the reason. The same text is logged once per process.
void Log(const step::Step& step, const step::Layout& layout) {
  std::set<step::Item> told;
  std::string text;
  for (const step::Apart& apart : layout.apart) {
    if (!told.insert(apart.item).second) continue;
    if (told.size() <= kMostNamed) text += "; '" + step.ops[step::At(apart.item)].name + "': " + apart.why;
  }
  if (told.empty()) return;
  if (told.size() > kMostNamed) text += "; and others";
  const std::string line = "ascpipe: of a step with " + std::to_string(step.lookups.size()) +
                           " lookups, these ops stay apart: " + text.substr(2);
  if (IsFirst(line)) LOG(INFO) << line;
}

// Reads the graph of a step, decides its layout and applies the layout.
Status CompileStep(Graph* graph) {
  step::Reading reading;
  TF_RETURN_IF_ERROR(step::ReadStep(graph, &reading));
  if (reading.step.ops.empty()) return OkStatus();
  const step::Layout layout = step::Decide(reading.step);
  Log(reading.step, layout);
  return step::WriteStep(layout, reading, graph);
}

// A session runs the pass once for each set of fetches. The pass receives a graph that is pruned to one set of fetches.
class StepPass : public tensorflow::GraphOptimizationPass {
 public:
  Status Run(const GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || *options.graph == nullptr) return OkStatus();
    Graph* const graph = options.graph->get();
    TF_RETURN_IF_ERROR(ExchangeAmongRanks(graph));
    TF_RETURN_IF_ERROR(CompileStep(graph));
    return IsAsked(options) ? OrderVariables(graph) : OkStatus();
  }
};

REGISTER_OPTIMIZATION(tensorflow::OptimizationPassRegistry::POST_REWRITE_FOR_EXEC, 0, StepPass);

}  // namespace

}  // namespace ascpipe
