#include "graph/step_compiler.h"

#include <set>
#include <string>

#include "graph/step_reader.h"
#include "graph/step_writer.h"
#include "step/step_rules.h"

namespace ascpipe {

namespace {

constexpr std::size_t kMostNamed = 4;  // in a line of the log

// Which lookups, joins and sums stay ops of their own, and why.
void Log(const step::Step& step, const step::Layout& layout) {
  std::set<step::Item> told;
  std::string text;
  for (const step::Apart& apart : layout.apart) {
    if (!told.insert(apart.item).second) continue;
    if (told.size() <= kMostNamed) text += "; '" + step.ops[step::At(apart.item)].name + "': " + apart.why;
  }
  if (told.empty()) return;
  if (told.size() > kMostNamed) text += "; and others";
  LOG(INFO) << "ascpipe: of a step with " << step.lookups.size()
            << " lookups, these ops stay apart: " << text.substr(2);
}

}  // namespace

tensorflow::Status CompileStep(tensorflow::Graph* graph) {
  step::Reading reading;
  TF_RETURN_IF_ERROR(step::ReadStep(graph, &reading));
  const step::Layout layout = step::Decide(reading.step);
  Log(reading.step, layout);
  return step::WriteStep(layout, reading, graph);
}

}  // namespace ascpipe
