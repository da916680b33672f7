// Rules that decide which ops of a step are merged, and in which order the ops run. The rules are pure functions.
// tests/reference/step_rules.py is the reference implementation.
#ifndef ASCPIPE_STEP_STEP_RULES_H_
#define ASCPIPE_STEP_STEP_RULES_H_

#include "step/step.h"

namespace ascpipe {
namespace step {

// Returns the layout of a step. The results of a step are bit-identical in all layouts of the step. Ops are merged only
// if the merged op adds the same values in the same order as the separate ops.
Layout Decide(Step step);

// Decides which reads combine or join rows, and which sums read gradients in place. If ops are merged, their items in
// `step->order` are merged, too.
void DecideReads(Step* step, Layout* layout);

// Merges the plans of each batch. Also merges updates that have the same formula and parameters.
void DecideGroups(Step* step, Layout* layout);

// Adds a control edge from each op that reads rows to each op that moves or updates the same rows. No edge is added if
// the reading op depends on the other op.
void DecideOrder(Step* step, Layout* layout);

}  // namespace step
}  // namespace ascpipe

#endif  // ASCPIPE_STEP_STEP_RULES_H_
